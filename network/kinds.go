package network

// The errors of BOSH's Director, by its own names. Every Problem and every Refused has
// one of these names, so that people can search for it.
const (
	InvalidType  = "ValidationInvalidType"
	MissingField = "ValidationMissingField"

	// Networks.
	NoNetworks              = "DeploymentNoNetworks"
	InvalidNetworkType      = "DeploymentInvalidNetworkType"
	CanonicalNameTaken      = "DeploymentCanonicalNetworkNameTaken"
	InvalidRange            = "NetworkInvalidRange"
	InvalidGateway          = "NetworkInvalidGateway"
	InvalidDNS              = "NetworkInvalidDns"
	InvalidIPRangeFormat    = "NetworkInvalidIpRangeFormat"
	ReservedIPOutOfRange    = "NetworkReservedIpOutOfRange"
	StaticIPOutOfRange      = "NetworkStaticIpOutOfRange"
	OverlappingSubnets      = "NetworkOverlappingSubnets"
	UnknownSubnetZone       = "NetworkSubnetUnknownAvailabilityZone"
	InvalidProperty         = "NetworkInvalidProperty"
	PrefixSizeTooBig        = "NetworkPrefixSizeTooBig"
	PrefixSizesDiffer       = "NetworkPrefixSizesDiffer"
	PrefixStaticIPNotAtBase = "NetworkPrefixStaticIpNotBaseAddress"
	InvalidZone             = "JobInvalidAvailabilityZone"

	// Groups.
	MissingNetwork       = "JobMissingNetwork"
	UnknownNetwork       = "JobUnknownNetwork"
	InvalidStaticIPs     = "JobInvalidStaticIPs"
	StaticIPsOnDynamic   = "JobStaticIPNotSupportedOnDynamicNetwork"
	StaticIPMismatch     = "InstanceGroupNetworkInstanceIpMismatch"
	InvalidDefault       = "JobNetworkInvalidDefault"
	MissingDefault       = "JobNetworkMissingDefault"
	MultipleDefaults     = "JobNetworkMultipleDefaults"
	MissingRequiredZone  = "JobNetworkMissingRequiredAvailabilityZone"
	MissingZones         = "JobMissingAvailabilityZones"
	UnknownZone          = "JobUnknownAvailabilityZone"
	StaticIPsInOtherZone = "JobStaticIpsFromInvalidAvailabilityZone"

	// Reservations.
	AlreadyExists       = "NetworkReservationAlreadyExists"
	AlreadyInUse        = "NetworkReservationAlreadyInUse"
	NotEnoughCapacity   = "NetworkReservationNotEnoughCapacity"
	IPOutsideSubnet     = "NetworkReservationIpOutsideSubnet"
	IPReserved          = "NetworkReservationIpReserved"
	WrongType           = "NetworkReservationWrongType"
	ReservationError    = "NetworkReservationError"
	VIPMisconfigured    = "NetworkReservationVipMisconfigured"
	VIPDefaultProvided  = "NetworkReservationVipDefaultProvided"
	NoSubnetOfZone      = "NetworkSubnetInvalidAvailabilityZone"
	ReservationMissing  = "NetworkReservationMissing"
	ReservationIPAbsent = "NetworkReservationIpMissing"
)
