package addresses

import (
	"net/netip"

	"bootstrap/network"
)

// Filter selects reservations. An empty field selects all.
type Filter struct {
	Scope      string
	Deployment string // the installation id
	Network    string
	VM         string
	Run        string
	Within     netip.Prefix // reservations with an address in this block
}

func ofOwner(owner network.Owner) Filter { return Filter{Deployment: owner.Deployment} }

// selects reports whether the filter selects the reservation.
func (f Filter) selects(r network.Reservation) bool {
	for _, field := range []struct{ want, is string }{
		{f.Scope, r.Scope}, {f.Deployment, r.Owner.Deployment}, {f.Network, r.Network},
		{f.VM, r.VM}, {f.Run, r.Run},
	} {
		if field.want != "" && field.want != field.is {
			return false
		}
	}
	return !f.Within.IsValid() || f.Within.Overlaps(r.Block)
}
