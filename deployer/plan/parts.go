package plan

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Parts with fixed names.
const (
	PartTags         = "tags"
	PartAgentAddress = "the agent: address"
	PartAddress      = "the address"
	PartJobs         = "the list of jobs"
	PartSpec         = "spec" // configuration hash, which is known only after an apply
)

// Parts that Places renames.
const (
	partProperties = "cloud_properties of resource pool"
	partEnv        = "env of resource pool"
	partNetwork    = "network " // before the name of one
	partPublished  = "cloud_provider: local_cpi.ports"
)

// NewSalt returns a key for the digests in one state, so that the values cannot be
// guessed from the digests.
func NewSalt() string {
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // Read never fails.
	return hex.EncodeToString(salt)
}

// Digest returns the salted digest of a value. The value is digested as JSON, so a number
// from YAML and the same number from the state file have the same digest.
func Digest(salt, part string, value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		data = fmt.Append(nil, value)
	}
	mac := hmac.New(sha256.New, []byte(salt))
	fmt.Fprintf(mac, "%s\n%s", part, data)
	return hex.EncodeToString(mac.Sum(nil)[:12])
}

func sameValue(a, b any) bool { return Digest("", "", a) == Digest("", "", b) }

// sameProperties compares maps; nil equals an empty map.
func sameProperties(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || sameValue(a, b)
}

// Digests replaces every value by its digest.
func Digests(salt string, parts map[string]any) map[string]string {
	all := make(map[string]string, len(parts))
	for k, v := range parts {
		all[k] = Digest(salt, k, v)
	}
	return all
}

// ChangedParts lists the parts whose digests differ, sorted.
func ChangedParts(have, want map[string]string) []string {
	var list []string
	for k, v := range want {
		if have[k] != v {
			list = append(list, k)
		}
	}
	for k := range have {
		if _, ok := want[k]; !ok && k != PartSpec {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return list
}

func sameParts(have, want map[string]string) bool { return maps.Equal(have, want) }

// sameApplied compares the parts that are known before an apply.
func sameApplied(have, want map[string]string) bool { return len(ChangedParts(have, want)) == 0 }

// VMParts returns the parts that a VM is created from and that cannot change on an
// existing VM, by name: "place: key". The stemcell is recorded separately.
func VMParts(m *manifest.Manifest) map[string]any {
	parts := map[string]any{}
	for k, v := range m.ResourcePool.CloudProperties {
		parts[partProperties+": "+k] = v
	}
	for name, n := range m.Interfaces() {
		for k, v := range n {
			if k == "prefix" && (v == "32" || v == "128") {
				continue // The prefix of a single address adds nothing to the address.
			}
			if list, ok := v.([]string); ok && k == "dns" && len(list) == 0 {
				continue // For an agent, this is the same as none.
			}
			parts[partNetwork+name+": "+k] = v
		}
	}
	for k, v := range m.ResourcePool.Env {
		below, isMap := v.(map[string]any)
		if k != "bosh" || !isMap {
			parts[partEnv+": "+k] = v
			continue
		}
		for k, v := range below {
			if k != "tags" && k != "mbus" {
				parts[partEnv+": bosh."+k] = v
			}
		}
	}
	if u := m.CPI.MBusURL; u != nil {
		parts[PartAgentAddress] = u.Host
	}
	if ports, _ := LookUp(m.CPI.Properties, "local_cpi.ports"); ports != nil {
		parts[partPublished] = ports // the embedded CPI publishes them
	}
	maps.Copy(parts, agentParts(m))
	return parts
}

// Places returns the names of the parts of a VM for a manifest in the Director's style,
// as Wishes has them; nil for a manifest in create-env's style.
func Places(m *manifest.Manifest) map[string]string {
	if !m.SharesNetworks() {
		return nil
	}
	places := map[string]string{partEnv: "env of instance group " + m.Group.Name}
	properties, others := m.Placement.Sources()
	for k, place := range properties {
		places[partProperties+": "+k] = "cloud_properties of " + place
	}
	places[partProperties] = "cloud_properties of " + others
	return places
}

// agentParts returns the parts that decide about the access to the agent.
func agentParts(m *manifest.Manifest) map[string]any {
	parts := map[string]any{AgentPrefix + PartCA: m.CPI.CA}
	if u := m.CPI.MBusURL; u != nil && u.User != nil {
		parts[AgentPrefix+PartPassword] = u.User.String()
	}
	if bosh, ok := m.ResourcePool.Env["bosh"].(map[string]any); ok && bosh["mbus"] != nil {
		parts[AgentPrefix+PartCertificate] = bosh["mbus"]
	}
	return parts
}

// InstanceParts returns the parts that a deploy applies to a VM: the inputs of templates,
// and packages. address is the address of the instance; packages are those of its jobs.
func InstanceParts(m *manifest.Manifest, releases map[string]*artifact.Release, packages []*artifact.Package, address string) map[string]any {
	parts := map[string]any{
		PartTags:                         m.Tags,
		PartAddress:                      address,
		"the name of the deployment":     m.Name,
		"the name of the instance group": m.Group.Name,
	}
	if zone := m.Zone(); zone != "" {
		parts["the zone"] = zone
	}
	var names []string
	for _, ref := range m.Group.Jobs {
		names = append(names, ref.Name)
		rel := releases[ref.Release]
		job := rel.Job(ref.Name)
		parts["template: "+ref.Name] = job.Fingerprint
		parts["release: "+ref.Name] = rel.Name + "/" + rel.Version
		if len(ref.Consumes)+len(ref.Provides)+len(ref.Custom) > 0 {
			described := []any{ref.Consumes, ref.Provides}
			if len(ref.Custom) > 0 {
				described = append(described, ref.Custom)
			}
			parts[DescribedLinks(ref.Name)] = described
		}
		for _, p := range job.Properties {
			if v, set := propertyOf(m, ref, p.Name); set {
				parts["property: "+ref.Name+" "+p.Name] = v
			}
		}
	}
	parts[PartJobs] = names
	for _, p := range packages {
		parts["package: "+p.Name] = p.Fingerprint
	}
	return parts
}

// propertyOf returns the value of a job's property in the manifest. A job with its own
// properties gets only these; otherwise, the group's are merged over the global ones.
func propertyOf(m *manifest.Manifest, ref manifest.JobRef, name string) (value any, set bool) {
	if ref.Properties != nil {
		return LookUp(ref.Properties, name)
	}
	group, inGroup := LookUp(m.Group.Properties, name)
	global, isGlobal := LookUp(m.Properties, name)
	switch {
	case inGroup && isGlobal:
		return []any{global, group}, true
	case inGroup:
		return group, true
	}
	return global, isGlobal
}

// LookUp finds the value of a dotted name in nested maps.
func LookUp(props map[string]any, name string) (value any, set bool) {
	var here any = props
	for key := range strings.SplitSeq(name, ".") {
		m, ok := here.(map[string]any)
		if !ok {
			return nil, false
		}
		if here, ok = m[key]; !ok {
			return nil, false
		}
	}
	return here, true
}
