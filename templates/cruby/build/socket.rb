# Stands in for the library socket, of which there is none here: what ipaddr,
# resolv and the like need to be loaded.
class SocketError < StandardError
end

class BasicSocket < IO
end

class Socket < BasicSocket
  AF_UNSPEC = 0
  AF_INET = 2
  AF_INET6 = 10
  SOCK_STREAM = 1
  SOCK_DGRAM = 2

  def self.missing
    raise NotImplementedError, "the embedded Ruby has no network: use --ruby PATH"
  end

  class << self
    %w[gethostname getaddrinfo ip_address_list tcp udp_server_sockets getifaddrs new open].each do |name|
      define_method(name) { |*| missing }
    end
  end
end

class IPSocket < BasicSocket
  def self.getaddress(*)
    Socket.missing
  end
end

class TCPSocket < IPSocket
  def self.new(*)
    Socket.missing
  end

  def self.open(*)
    Socket.missing
  end
end

class UDPSocket < IPSocket
  def self.new(*)
    Socket.missing
  end
end

class TCPServer < TCPSocket
end

class UNIXSocket < BasicSocket
  def self.new(*)
    Socket.missing
  end
end

class Addrinfo
  def self.method_missing(*)
    Socket.missing
  end
end
