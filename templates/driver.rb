# Renders the ERB templates of release jobs: one JSON request in, one JSON
# answer out. It needs the standard library alone and neither files, threads
# nor processes, so that any engine can run it: evaluate it once, then call
# BootstrapTemplates.answer, or BootstrapTemplates.serve in a process.
#
# It must be readable to Ruby 2.0, or else an old Ruby is not told as such.
module BootstrapTemplates
  LIBRARIES = %w[erb json yaml]

  # The global variables that belong to the running method or thread.
  OF_A_METHOD = %i[$~ $_ $& $` $' $+ $! $@ $? $1 $2 $3 $4 $5 $6 $7 $8 $9]

  class UnknownProperty < StandardError
    attr_reader :names, :owner

    # The owner is the link that was asked, nil: the job itself.
    def initialize(names, owner = nil)
      @names = names
      @owner = owner
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

  # Node gives access to a hash by method, as create-env does: properties.a.b. An
  # unknown name is nil, also with arguments. The methods of OpenStruct are answered
  # where no key has their name.
  class Node
    # The methods that no key hides: Ruby and this class need them.
    KEPT = %i[
      __id__ __send__ define_singleton_method inspect instance_eval instance_exec
      is_a? kind_of? methods nil? object_id respond_to? to_json to_s
    ]

    def initialize(hash)
      @hash = {}
      @seen = {}
      hash.each do |key, value|
        name = key.to_sym
        @hash[name] = value
        # A key hides a method that every object has, such as hash or display.
        define_singleton_method(name) { wrap(name) } if Node.method_defined?(name) && !KEPT.include?(name)
      end
    end

    def method_missing(name, *args, &block)
      return wrap(name) if @hash.key?(name)
      if name.to_s.end_with?("=") && args.length == 1
        key = name.to_s.chomp("=").to_sym
        @seen.delete(key)
        return @hash[key] = args[0]
      end
      case name
      when :[] then wrap(args[0].to_sym)
      when :[]= then __send__("#{args[0]}=", args[1])
      when :to_h then block ? marshal_dump.map(&block).to_h : marshal_dump
      when :marshal_dump then @hash.keys.each_with_object({}) { |key, all| all[key] = wrap(key) }
      when :each_pair
        return marshal_dump.each_pair unless block
        marshal_dump.each_pair { |pair| block.call(*pair) }
        self
      when :delete_field
        return block ? block.call : raise(NameError.new("no field '#{args[0]}'", args[0])) unless @hash.key?(args[0].to_sym)
        value = wrap(args[0].to_sym)
        @seen.delete(args[0].to_sym)
        @hash.delete(args[0].to_sym)
        value
      end
    end

    def dig(name, *names)
      raise TypeError, "#{name} is not a symbol nor a string" unless name.respond_to?(:to_sym)
      marshal_dump.dig(name.to_sym, *names)
    end

    def ==(other)
      other.is_a?(Node) && marshal_dump == other.marshal_dump
    end

    def eql?(other)
      other.is_a?(Node) && marshal_dump.eql?(other.marshal_dump)
    end

    def hash
      @hash.key?(:hash) ? wrap(:hash) : marshal_dump.hash
    end

    def respond_to_missing?(name, _private = false)
      @hash.key?(name) || name.to_s.end_with?("=") || %i[[] to_h marshal_dump each_pair delete_field].include?(name)
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

  # Properties has the methods that read and write hashes by dotted names.
  module Properties
    def lookup_property(collection, name)
      BootstrapTemplates.find(collection, name)
    end

    def set_property(collection, name, value)
      *parents, last = name.split(".")
      parents.inject(collection) { |hash, key| hash[key] ||= {} }[last] = value
    end

    def copy_property(to, from, name, default = nil)
      value = BootstrapTemplates.find(from, name)
      set_property(to, name, value.nil? ? default : value)
    end

    def sort_property(value)
      return value unless value.is_a?(Hash)
      value.map { |key, item| [key, sort_property(item)] }.sort_by(&:first).to_h
    end
  end

  # Lookup reads the properties of a job, of a link or of an instance of a link:
  # those that bootstrap_source returns, with the owner for UnknownProperty.
  module Lookup
    include Properties

    def p(*args)
      names = Array(args[0])
      properties, owner = bootstrap_source
      names.each do |name|
        value = BootstrapTemplates.find(properties, name)
        return value unless value.nil?
      end
      return args[1] if args.length == 2
      raise UnknownProperty.new(names, owner)
    end

    def if_p(*names)
      properties, = bootstrap_source
      values = names.map do |name|
        value = BootstrapTemplates.find(properties, name)
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

  # Link is what a job consumes of another one.
  class Link
    include Lookup
    attr_reader :properties, :instances

    def initialize(name, data)
      @name = name
      @address = data["address"]
      @name_without_instances = (data["spec"] || {})["name"]
      @properties = data["properties"] || {}
      @instances = (data["instances"] || []).map { |instance| Instance.new(name, instance) }
    end

    # The first of several instances is never the address of all: it would get
    # everything.
    def address(*)
      return @address if @address
      if @instances.length > 1
        raise "link '#{@name}' has #{@instances.length} instances and no address of its own: use its instances, for example link('#{@name}').instances.map(&:address)"
      end
      @instances.empty? ? @name_without_instances : @instances[0].address
    end

    def inspect
      "#<link #{@name}>"
    end
    alias to_s inspect

    private

    def bootstrap_source
      [@properties, { "link" => @name }]
    end

    # Instance has nothing but what the Director tells of an instance.
    class Instance
      include Lookup
      attr_reader :name, :index, :id, :az, :address, :properties, :bootstrap

      def initialize(link, data)
        @link = link
        @name, @index, @id, @az, @address, @properties, @bootstrap =
          data.values_at("name", "index", "id", "az", "address", "properties", "bootstrap")
      end

      def inspect
        "#<instance of link #{@link}>"
      end
      alias to_s inspect

      private

      def bootstrap_source
        [@properties, { "link" => @link, "instance" => true }]
      end
    end
  end

  # Context is what the code in a template sees as self.
  class Context
    include Lookup
    attr_reader :name, :index, :raw_properties

    UnknownProperty = BootstrapTemplates::UnknownProperty
    UnknownLink = BootstrapTemplates::UnknownLink

    def initialize(data, declared)
      @links = data["links"] || {}
      @raw_properties = declared || BootstrapTemplates.declared(data)
      # Only a Director gives templates a spec apart from the properties.
      @director = data.key?("spec")
      @facts = @director ? data["spec"].merge("properties" => @raw_properties) : data
      @name = @facts["job"]["name"]
      @index = @facts["index"]
    end

    # Most templates use p alone, and these take longer to make than a file to render.
    def properties
      @properties ||= openstruct(@raw_properties)
    end

    def spec
      @spec ||= openstruct(@facts, BootstrapTemplates.spec_class)
    end

    def link(name)
      raise UnknownLink.new(name) unless @links.key?(name)
      Link.new(name, @links[name])
    end

    def if_link(name)
      return Otherwise.new(self) unless @links.key?(name)
      yield(Link.new(name, @links[name]))
      Done.new
    end

    def inspect
      "#<template of #{@name}>"
    end
    alias to_s inspect

    private

    def openstruct(value, kind = OpenStruct)
      return BootstrapTemplates.struct(value) unless @director
      case value
      when Hash
        begin
          kind.new(value.map { |key, item| [key, openstruct(item, kind)] }.to_h)
        rescue NoMethodError # OpenStruct of Ruby 3.0 to 3.2, for a key such as class
          Node.new(value)
        end
      when Array then value.map { |item| openstruct(item, kind) }
      else value
      end
    end

    def bootstrap_source
      [@raw_properties, nil]
    end
  end

  class << self
    # spec_class is the class of a Director's spec. Old templates find the names of
    # networks with methods(false).
    attr_reader :spec_class

    # answer renders one template. The request has "file" (its name in errors),
    # "template" (base64) and, when it is not that of the last request,
    # "context". The answer has "result" (base64) or "error".
    def answer(line)
      request = JSON.parse(line, :max_nesting => false)
      # A template must not see what the one before it did to its properties.
      @context = copied(request["context"]) if request.key?("context")
      answer = render(request["file"], request["template"].unpack("m0")[0], *Marshal.load(@context))
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
      patch_openstruct
      patch_objects
      watch_globals
      nil
    end

    def struct(value)
      case value
      when Hash then Node.new(value)
      when Array then value.map { |item| struct(item) }
      else value
      end
    end

    # find returns the value of a dotted name, nil if there is none. A list, a
    # number or a boolean on the way is a mistake of whoever made the properties.
    def find(properties, name)
      seen = []
      name.split(".").inject(properties) do |value, key|
        case value
        when nil, String then return nil
        when Array, Numeric, true, false
          raise TypeError, "property '#{seen.join(".")}' is #{kind(value)}, so it has no '#{key}'"
        end
        seen << key
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

    # copied returns a context and the declared properties, as one text: they
    # share values. If these cannot be found, each template says why.
    def copied(context)
      plain = Marshal.dump([context, nil])
      Marshal.dump([context, declared(context)])
    rescue StandardError
      plain
    end

    def kind(value)
      case value
      when Array then "a list"
      when Numeric then "a number"
      else "a boolean"
      end
    end

    def merge(left, right)
      left.merge(right) do |_, old, new|
        old.is_a?(Hash) && new.is_a?(Hash) ? merge(old, new) : new
      end
    end

    def render(file, source, data, declared)
      values = @read_globals.call
      variables = ENV.to_hash
      source.force_encoding(Encoding::UTF_8)
      source.force_encoding(Encoding::BINARY) unless source.valid_encoding?
      erb = ERB.new(source, :trim_mode => "-")
      erb.filename = file
      { "result" => [erb.result(scope(source, data, declared))].pack("m0") }
    rescue Exception => error # rubocop:disable Lint/RescueException
      { "error" => describe(error, file, data) }
    ensure
      restore(values, variables) if variables
    end

    # restore gives the global variables and the environment the values that
    # they had before a template: the next one must not see what this one set.
    def restore(values, variables)
      (global_variables - @own_globals).each do |name|
        begin
          eval("#{name} = nil")
        rescue StandardError
          next # an alias of a variable that cannot be set
        end
      end
      @write_globals.call(values)
      ENV.replace(variables)
    end

    # watch_globals makes the procs that read and write Ruby's own variables:
    # those that can be written and are not about the running method.
    def watch_globals
      @own_globals = global_variables
      names = (@own_globals - OF_A_METHOD).select do |name|
        begin
          eval("#{name} = #{name}")
          true
        rescue StandardError, SyntaxError
          false
        end
      end
      @read_globals = eval("proc { [#{names.join(", ")}] }")
      writes = names.each_with_index.map { |name, i| "#{name} = values[#{i}] unless #{name}.equal?(values[#{i}])" }
      @write_globals = eval("proc { |values| #{writes.join("; ")} }")
    end

    # scope returns the binding for one template. Its class is nobody else's,
    # so methods and constants that the template defines end with it.
    def scope(source, data, declared)
      own = Class.new(Context)
      own.class_eval("def get_binding; binding; end")
      context = own.new(data, declared)
      %w[properties spec].each { |name| context.public_send(name) if source.include?("@" + name) }
      context.get_binding
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
        "owner" => error.is_a?(UnknownProperty) ? error.owner : nil,
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

    # patch_openstruct makes the JSON of an OpenStruct that of its values, which is what
    # a template wants that prints one: Ruby's is the text of inspect. A Ruby without
    # its bundled gems has no OpenStruct.
    def patch_openstruct
      begin
        require "ostruct"
      rescue LoadError
        Object.const_set(:OpenStruct, Node)
      end
      OpenStruct.class_eval do
        def to_json(*args)
          marshal_dump.to_json(*args)
        end
      end
      @spec_class = Class.new(OpenStruct) do
        def methods(regular = true)
          regular ? super(regular) : marshal_dump.keys.map(&:to_sym)
        end
      end
    end

    # patch_objects gives all objects blank?, present? and presence, which the
    # Director's process has.
    def patch_objects
      return if Object.method_defined?(:blank?)
      Object.class_eval do
        def blank?
          respond_to?(:empty?) ? !!empty? : !self
        end

        def present?
          !blank?
        end

        def presence
          self if present?
        end
      end
      String.class_eval do
        def blank?
          scrub("?").strip !~ /[^[:space:]]/
        rescue Encoding::CompatibilityError
          false
        end
      end
    end
  end
end

BootstrapTemplates.load
