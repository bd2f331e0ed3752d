package instance

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"

	"bootstrap/deployer/kept"
	"bootstrap/deployment/record"
	"bootstrap/network"
	"bootstrap/state/file"
)

// ReadAlone reads a state file of a manifest with one instance, and returns that
// instance: when the deployment grows, it stays the first instance. It returns nil if
// there is no such file. Addresses that only the state has are listed under an empty
// network name.
func ReadAlone(path, home string) (*record.Instance, error) {
	st, found, err := file.Read(path, home)
	if err != nil || !found {
		return nil, err
	}
	folder := kept.At(filepath.Join(home, st.InstallationID))
	known, _ := folder.Deployment()
	group := cmp.Or(st.Own.Group, known.Group)
	if group == "" {
		return nil, fmt.Errorf("the state file %s does not record the instance group of its VM: deploy the manifest with one instance first, which records it", path)
	}
	id, err := OnlyID(st.InstallationID, group)
	if err != nil {
		return nil, err
	}
	in := &record.Instance{
		ID: id, Group: group, Zone: st.Own.Zone, Bootstrap: true, Disk: len(st.UsedDisks()) > 0,
		State: record.Beside(path), Addresses: map[string]netip.Prefix{},
	}
	in.Whose(st)
	keep := func(network, address string) {
		if addr, err := netip.ParseAddr(address); err == nil {
			in.Addresses[network] = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if applied, ok := folder.Applied(kept.Current); ok && applied.VM == st.CurrentVMCID {
		for name, settings := range applied.Spec.Networks {
			if text, ok := settings["ip"].(string); ok && settings["type"] != string(network.Dynamic) {
				keep(name, text)
			}
		}
	} else if st.CurrentVMCID != "" {
		keep("", st.Own.Address)
	}
	return in, nil
}
