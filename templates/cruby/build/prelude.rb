# Loaded into the image before the driver: the libraries that templates use, and
# plain words where this Ruby cannot do what another one does.
$LOAD_PATH.unshift("/library")
ENV.clear

%w[
  base64 cgi csv date delegate digest digest/md5 digest/sha1 digest/sha2 erb forwardable
  ipaddr json open3 openssl optparse ostruct pathname pp psych rexml/document securerandom
  rubygems/requirement rubygems/version set shellwords singleton stringio strscan tempfile time timeout tmpdir tsort uri yaml zlib
].each do |library|
  require library
  GC.start
end

module Kernel
  %w[system spawn exec fork `].each do |name|
    define_method(name) do |*|
      raise NotImplementedError, "the embedded Ruby starts no programs (#{name == "`" ? "backticks" : name}): use --ruby PATH"
    end
    module_function name
  end
end

%w[spawn exec fork daemon kill].each do |name|
  Process.define_singleton_method(name) do |*|
    raise NotImplementedError, "the embedded Ruby starts no programs (Process.#{name}): use --ruby PATH"
  end
end

%w[popen pipe].each do |name|
  IO.define_singleton_method(name) do |*|
    raise NotImplementedError, "the embedded Ruby starts no programs (IO.#{name}): use --ruby PATH"
  end
end

module Kernel
  plain = instance_method(:open)
  define_method(:open) do |name, *rest, **options, &block|
    if name.is_a?(String) && name.start_with?("|")
      raise NotImplementedError, "the embedded Ruby starts no programs (open): use --ruby PATH"
    end
    plain.bind_call(self, name, *rest, **options, &block)
  end
  module_function :open
end

class Thread
  class << self
    %w[new start fork].each do |name|
      define_method(name) do |*|
        raise NotImplementedError, "the embedded Ruby has no threads: use --ruby PATH"
      end
    end
  end
end

# There is no thread that could look at the clock; whoever started this Ruby
# does.
module Timeout
  def self.timeout(seconds, *)
    yield(seconds)
  end

  def timeout(*args, &block)
    Timeout.timeout(*args, &block)
  end
  private :timeout
end
