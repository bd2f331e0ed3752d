package manifest

import (
	"strings"

	"bootstrap/manifest/document"
)

// Download is a release or a stemcell that a manifest names with an http(s) URL.
type Download struct {
	Release   string // its name; empty: a stemcell
	URL, SHA1 string
}

// Downloads returns the downloads of a document whose variables are not filled in,
// without those that a variable can change. It reports no problems.
func Downloads(top document.Value) []Download {
	var list []Download
	add := func(release string, item document.Value) {
		d := Download{release, item.Get("url").Scalar(), item.Get("sha1").Scalar()}
		if isRemote(d.URL) && d.SHA1 != "" && !strings.Contains(d.Release+d.URL+d.SHA1, "((") {
			list = append(list, d)
		}
	}
	for _, item := range listed(top.Get("releases")) {
		if name := item.Get("name").Scalar(); name != "" {
			add(name, item)
		}
	}
	// Of several stemcells, the instance group selects one.
	if stemcells := listed(top.Get("stemcells")); len(stemcells) == 1 {
		add("", stemcells[0])
	}
	if pools := listed(top.Get("resource_pools")); len(pools) == 1 {
		add("", pools[0].Get("stemcell"))
	}
	return list
}

func listed(v document.Value) []document.Value {
	if !v.IsList() {
		return nil
	}
	return v.Items()
}
