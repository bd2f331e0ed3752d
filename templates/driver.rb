# Renders the ERB templates of release jobs: one JSON request in, one JSON
# answer out. It needs the standard library alone and neither files, threads
# nor processes, so that any engine can run it: evaluate it once, then call
# BootstrapTemplates.answer, or BootstrapTemplates.serve in a process.
#
# It must be readable to Ruby 2.0, or else an old Ruby is not told as such.
module BootstrapTemplates
  LIBRARIES = %w[erb json yaml]

  class UnknownProperty < StandardError
    attr_reader :names

    def initialize(names)
      @names = names
      super("Can't find property '#{names.join("', or '")}'")
    end
  end

  class UnknownLink < StandardError
    attr_reader :name

    def initialize(name)
      @name = name
      super("Can't find link '#{name}'")
    end
  end

  # Node gives access to a hash by method: properties.a.b. An unknown name is
  # nil. A few methods of OpenStruct are answered where no key has their name.
  class Node
    def initialize(hash)
      @hash = {}
      @seen = {}
      hash.each { |key, value| @hash[key.to_sym] = value }
    end

    def method_missing(name, *args)
      return wrap(name) if @hash.key?(name)
      if name.to_s.end_with?("=") && args.length == 1
        key = name.to_s.chomp("=").to_sym
        @seen.delete(key)
        return @hash[key] = args[0]
      end
      case name
      when :[] then wrap(args[0].to_sym)
      when :dig then args[1..-1].inject(wrap(args[0].to_sym)) { |value, key| value.nil? ? nil : value[key] }
      when :to_h, :marshal_dump then @hash.keys.each_with_object({}) { |key, all| all[key] = wrap(key) }
      when :each_pair then @hash.each_key { |key| yield(key, wrap(key)) }
      end
    end

    def respond_to_missing?(name, _private = false)
      @hash.key?(name) || name.to_s.end_with?("=")
    end

    # Old templates find the names of networks with methods(false).
    def methods(all = true)
      names = @hash.keys.flat_map { |key| [key, :"#{key}="] }
      all ? super() + names : names
    end

    def to_json(*args)
      @hash.to_json(*args)
    end

    def inspect
      "#<properties>"
    end
    alias to_s inspect

    private

    def wrap(key)
      return @seen[key] if @seen.key?(key)
      @seen[key] = BootstrapTemplates.struct(@hash[key])
    end
  end

  # Lookup has the methods that read raw_properties.
  module Lookup
    def p(*args)
      names = Array(args[0])
      names.each do |name|
        value = BootstrapTemplates.find(raw_properties, name)
        return value unless value.nil?
      end
      return args[1] if args.length == 2
      raise UnknownProperty.new(names)
    end

    def if_p(*names)
      values = names.map do |name|
        value = BootstrapTemplates.find(raw_properties, name)
        return Otherwise.new(self) if value.nil?
        value
      end
      yield(*values)
      Done.new
    end
  end

  # Otherwise follows a condition that did not hold.
  class Otherwise
    def initialize(context)
      @context = context
    end

    def else
      yield
    end

    def else_if_p(*names, &block)
      @context.if_p(*names, &block)
    end

    def else_if_link(name, &block)
      @context.if_link(name, &block)
    end
  end

  # Done follows a condition that held.
  class Done
    def else
    end

    def else_if_p(*)
      self
    end

    def else_if_link(*)
      self
    end
  end

  # Link is what a job consumes of another one; its instances have the same
  # methods to read properties.
  class Link
    include Lookup
    attr_reader :raw_properties, :instances
    alias properties raw_properties

    def initialize(data)
      @data = data
      @raw_properties = data["properties"] || {}
      @instances = (data["instances"] || []).map { |instance| Instance.new(instance, @raw_properties) }
    end

    def address(*)
      @data["address"] || (@instances.empty? ? nil : @instances[0].address)
    end

    class Instance < Node
      include Lookup
      attr_reader :raw_properties

      def initialize(data, properties)
        super(data)
        @raw_properties = data["properties"] || properties
      end
    end
  end

  # Context is what the code in a template sees as self.
  class Context
    include Lookup
    attr_reader :name, :index, :properties, :raw_properties, :spec

    UnknownProperty = BootstrapTemplates::UnknownProperty
    UnknownLink = BootstrapTemplates::UnknownLink

    def initialize(data)
      @name = data["job"]["name"]
      @index = data["index"]
      @links = data["links"] || {}
      @raw_properties = BootstrapTemplates.declared(data)
      @properties = openstruct(@raw_properties)
      @spec = openstruct(data)
    end

    def link(name)
      raise UnknownLink.new(name) unless @links.key?(name)
      Link.new(@links[name])
    end

    def if_link(name)
      return Otherwise.new(self) unless @links.key?(name)
      yield(Link.new(@links[name]))
      Done.new
    end

    def inspect
      "#<template of #{@name}>"
    end
    alias to_s inspect

    private

    def openstruct(value)
      BootstrapTemplates.struct(value)
    end
  end

  class << self
    # answer renders one template. The request has "file" (its name in errors),
    # "template" (base64) and, when it is not that of the last request,
    # "context". The answer has "result" (base64) or "error".
    def answer(line)
      request = JSON.parse(line, :max_nesting => false)
      # A template must not see what the one before it did to its properties.
      @context = Marshal.dump(request["context"]) if request.key?("context")
      answer = render(request["file"], request["template"].unpack("m0")[0], Marshal.load(@context))
      JSON.generate(answer)
    end

    # serve answers the lines of standard input on standard output, which
    # templates and what they start see as standard error.
    def serve
      input = $stdin.dup
      output = $stdout.dup
      input.binmode
      output.binmode
      output.sync = true
      $stdin.reopen(File::NULL)
      $stdout.reopen($stderr)
      output.write(%({"ruby":"#{RUBY_VERSION}","missing":"#{@missing}"}\n))
      while (line = input.gets("\n"))
        output.write(answer(line), "\n")
      end
    end

    # load returns the name of the library that this Ruby lacks, or nil.
    def load
      LIBRARIES.each do |library|
        begin
          require library
        rescue LoadError
          return @missing = library
        end
      end
      patch_json
      nil
    end

    def struct(value)
      case value
      when Hash then Node.new(value)
      when Array then value.map { |item| struct(item) }
      else value
      end
    end

    # find returns the value of a dotted name, nil if there is none.
    def find(properties, name)
      name.split(".").inject(properties) do |value, key|
        return nil unless value.is_a?(Hash)
        value[key]
      end
    end

    # declared returns the properties that the job's spec declares, with their
    # defaults. The job's own properties hide all others.
    def declared(data)
      source = data["job_properties"]
      source = merge(data["global_properties"] || {}, data["cluster_properties"] || {}) if source.nil?
      properties = {}
      data["default_properties"].each do |name, default|
        value = find(source, name)
        *parents, last = name.split(".")
        parent = parents.inject(properties) do |hash, key|
          hash[key] = {} if hash[key].nil?
          break nil unless hash[key].is_a?(Hash)
          hash[key]
        end
        parent[last] = value.nil? ? default : value if parent
      end
      properties
    end

    private

    def merge(left, right)
      left.merge(right) do |_, old, new|
        old.is_a?(Hash) && new.is_a?(Hash) ? merge(old, new) : new
      end
    end

    def render(file, source, data)
      source.force_encoding(Encoding::UTF_8)
      source.force_encoding(Encoding::BINARY) unless source.valid_encoding?
      erb = ERB.new(source, :trim_mode => "-")
      erb.filename = file
      { "result" => [erb.result(scope(data))].pack("m0") }
    rescue Exception => error # rubocop:disable Lint/RescueException
      { "error" => describe(error, file, data) }
    end

    # scope returns the binding for one template. Its class is nobody else's,
    # so methods and constants that the template defines end with it.
    def scope(data)
      own = Class.new(Context)
      own.class_eval("def get_binding; binding; end")
      own.new(data).get_binding
    end

    def describe(error, file, data)
      line = (error.backtrace || []).map { |frame| frame[/\A#{Regexp.escape(file)}:(\d+)/, 1] }.compact.first
      text = message(error)
      if error.is_a?(SyntaxError)
        line = text[/^#{Regexp.escape(file)}:(\d+)/, 1] || line
        text = syntax(text, file)
      end
      {
        "class" => error.class.name.to_s,
        "message" => redact(text, data)[0, 2000],
        "line" => line.to_i,
        "properties" => error.is_a?(UnknownProperty) ? error.names.map(&:to_s) : [],
        "link" => error.is_a?(UnknownLink) ? error.name.to_s : "",
      }
    end

    # message avoids the texts in which Ruby shows the receiver: that may be a
    # secret.
    def message(error)
      if error.is_a?(NoMethodError)
        "undefined method '#{error.name}' for #{receiver(error)}"
      elsif error.is_a?(NameError) && error.message =~ /\A(undefined local variable or method|uninitialized constant)/
        "#{$1} '#{error.name}'"
      else
        text = error.respond_to?(:original_message) ? error.original_message : error.message
        # The parser shows the place, that is the rest of the value.
        text = text.sub(/\A\d+: /, "").sub(/(?: at|:) '.*/m, "") if error.class.name =~ /\AJSON::/
        text.to_s.dup.force_encoding(Encoding::UTF_8).scrub("?").gsub(/#<Class:0x\h+>::/, "")
      end
    rescue StandardError
      error.class.name.to_s
    end

    def receiver(error)
      value = error.receiver
      case value
      when nil, true, false then value.inspect
      when Module then "class #{value.name}"
      when Context then "the template"
      else "an instance of #{value.class.name}"
      end
    rescue StandardError
      "its receiver"
    end

    def syntax(text, file)
      marks = text.scan(/\^+~* (.+)$/).flatten
      return "syntax error: " + marks.uniq.join("; ") unless marks.empty?
      text.lines.first.to_s.sub(/\A#{Regexp.escape(file)}:\d+: /, "").strip
    end

    # redact puts the names of properties where their values stand in a text.
    def redact(text, data)
      keys = %w[job_properties cluster_properties global_properties links]
      values = data.is_a?(Hash) ? keys.flat_map { |key| strings(data[key], []) } : []
      values.sort_by { |value, _| -value.length }.inject(text) do |rest, (value, path)|
        name = "<value of #{path.join(".")}>"
        rest.gsub(value) { name }.gsub(value.inspect[1..-2]) { name }
      end
    rescue StandardError
      "the message cannot be shown"
    end

    def strings(value, path)
      case value
      when Hash then value.flat_map { |key, item| strings(item, path + [key]) }
      when Array then value.each_with_index.flat_map { |item, i| strings(item, path + [i]) }
      when String then value.strip.length >= 6 ? [[value, path], [value.strip, path]] : []
      else []
      end
    end

    # patch_json makes JSON.dump write texts and numbers as Ruby prints them,
    # which is what releases were written against.
    def patch_json
      JSON.singleton_class.class_eval do
        alias_method :dump_value, :dump

        def dump(*args)
          case args[0]
          when String, Numeric then args[0].inspect
          else dump_value(*args)
          end
        end
        ruby2_keywords(:dump) if respond_to?(:ruby2_keywords, true)
      end
    end
  end
end

BootstrapTemplates.load
