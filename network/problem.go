package network

// Problem is an error in the text of networks or of a group's use of them.
type Problem struct {
	// Path is the path of the value, for example
	// networks[0].subnets[1].reserved[2].
	Path string
	// Kind is the name that BOSH's Director has for the error, for example
	// NetworkReservedIpOutOfRange.
	Kind string
	// Message describes what is wrong and what is allowed.
	Message string
}

// Rules are the facts that networks are checked against.
type Rules struct {
	// Zones are the names of the availability zones.
	Zones []string
	// GatewayOptional allows subnets without a gateway.
	GatewayOptional bool
}
