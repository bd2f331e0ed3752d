# Stands in for the libraries io/console, io/nonblock and io/wait, of which there
# are none here: what net/http, drb and the like need to be loaded.
class IO
  # There is no terminal.
  def self.console(*)
    nil
  end

  %i[cooked cursor echo= getch getpass noecho nonblock nonblock= nread raw ready? winsize winsize=].each do |name|
    next if method_defined?(name)
    define_method(name) do |*|
      raise NotImplementedError, "the embedded Ruby has no terminal and waits for nothing (IO##{name}): use --ruby PATH"
    end
  end
end
