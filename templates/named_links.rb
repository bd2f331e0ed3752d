# Methods of a template whose job has links with DNS names. Only such templates get
# them, so they are not in driver.rb.

def link(name)
  bootstrap_named(super, @links[name]["query"])
end

def if_link(name)
  super(name) { |found| yield bootstrap_named(found, @links[name]["query"]) }
end

# A filter of address asks for a part of the instances, in the words of a Director's
# DNS encoder: azs, status, initial_health_check and uuid. It ignores the group.
def bootstrap_named(link, query)
  return link unless query
  link.define_singleton_method(:address) do |filter = {}|
    unknown = filter.keys - %i[azs status initial_health_check uuid group_name group_type default_network deployment_name root_domain]
    raise "link.address has no filter #{unknown[0].inspect}: use azs, status or initial_health_check" unless unknown.empty?
    zones = Array(filter[:azs]).compact.uniq.map do |zone|
      "a" + query["azs"].fetch(zone) { raise "link.address: unknown AZ '#{zone}'; known: #{query["azs"].keys.sort.join(", ")}" }
    end
    instance = filter[:uuid]
    next "#{instance}.#{query["group"]}" if instance && query["network"].empty?
    parts = zones + [query["network"]]
    parts << query["instances"].fetch(instance) { raise "link.address: the link has no instance '#{instance}'" } if instance
    parts << { "synchronous" => "y1", "asynchronous" => "y0" }[filter[:initial_health_check]].to_s
    parts << "s#{{ "healthy" => 3, "unhealthy" => 1, "all" => 4 }.fetch(filter[:status], 0)}"
    "q-#{parts.sort.join}.#{query["group"]}"
  end
  link
end
