package deployment

import (
	"net/netip"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/state/file"
)

// Load reads the record of the deployment in a folder. If there is none, and the manifest
// was deployed with one instance, the record has that one: its state file stays where it
// is.
func Load(dir string, opts deployer.Options) (*record.Record, error) {
	r, err := opts.LoadRecord(dir)
	if err != nil || record.Exists(dir) {
		return r, err
	}
	path, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return nil, err
	}
	alone, err := instance.ReadAlone(path, opts.Home)
	if err != nil || alone == nil {
		return r, err
	}
	r.Instances = append(r.Instances, alone)
	st, _, err := file.Read(path, opts.Home)
	r.Deployed = st.Own.Deployed // growing is not the first deploy
	return r, err
}

// nameNetworks names the network of an address of which only the state is known: it is
// the one by which others reach the instance.
func nameNetworks(d *manifest.Deployment, r *record.Record) {
	for _, in := range r.Instances {
		block, unnamed := in.Addresses[""]
		if !unnamed {
			continue
		}
		delete(in.Addresses, "")
		for i := range d.Groups {
			if name := d.Groups[i].DefaultNetwork(); d.Groups[i].Name == in.Group && name != "" {
				in.Addresses = map[string]netip.Prefix{name: block}
			}
		}
	}
}

// isAlone reports whether a deployment has one instance, which a deploy of a manifest
// with one instance could have made: with its state file, id and index.
func isAlone(of deployer.Several, r *record.Record, vm func(*record.Instance) VM) bool {
	if !of.Deployment.Single() || len(r.Instances) != 1 {
		return false
	}
	in := r.Instances[0]
	id, err := instance.OnlyID(vm(in).Installation, in.Group)
	return err == nil && in.ID == id && in.Index == 0 && in.Beside()
}

// Settle removes the record of a deployment that is up to date, if it needs none.
func (d *Draft) Settle() error {
	if !d.Alone || len(d.Record.Former) > 0 || d.Record.Names != nil {
		return nil
	}
	return d.Record.Forget()
}
