package templates

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"bootstrap/artifact"
)

// group is a provider "db", a second one, and a consumer with one template.
func group(t *testing.T, template string) (db, other, web Job) {
	t.Helper()
	db = newJob(t, "db", nil, artifact.Property{Name: "port", Default: 5432}, artifact.Property{Name: "tls.ca"}, artifact.Property{Name: "secret"})
	db.Provides = []artifact.Link{{Name: "conn", Type: "sql", Properties: []string{"port", "tls.ca", "tls.off"}}}
	other = newJob(t, "other", nil)
	other.Provides = []artifact.Link{{Name: "conn2", Type: "other"}}
	web = newJob(t, "web", map[string]string{"f": template})
	web.Consumes = []artifact.Link{{Name: "db", Type: "sql"}}
	for _, job := range []*Job{&db, &other, &web} {
		job.Context = Context{Name: "vm", ID: "id-1", Address: "10.0.0.5", Bootstrap: true, Deployment: "dep", Path: "jobs[7]"}
	}
	db.Context.GlobalProperties = map[string]any{"tls": map[any]any{"ca": "pem"}, "secret": "not provided"}
	return db, other, web
}

const asks = `<% if_link("db") do |l| %><%= l.properties.to_json %> <%= l.address.inspect %> <%= l.instances.map { |i| [i.name, i.id, i.index, i.az, i.address, i.bootstrap] }.to_json %><% end.else do %>none<% end %>`

func TestLinks(t *testing.T) {
	t.Parallel()
	cfg := native(t)
	const own = `{"port":5432,"tls":{"ca":"pem","off":null}} "10.0.0.5" [["vm","id-1",0,"unknown","10.0.0.5",true]]`
	tests := map[string]struct {
		change func(db, other, web *Job)
		want   string
	}{
		"by type":   {func(db, other, web *Job) {}, own},
		"own value": {func(db, other, web *Job) { db.Context.JobProperties = map[string]any{"port": 1} }, strings.Replace(strings.Replace(own, "5432", "1", 1), `"pem"`, "null", 1)},
		"from":      {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": map[string]any{"from": "conn"}} }, own},
		"from an alias": {func(db, other, web *Job) {
			db.Context.Provides = map[string]any{"conn": map[string]any{"as": "x", "shared": true}}
			web.Context.Consumes = map[string]any{"db": map[string]any{"from": "x", "deployment": "dep"}}
		}, own},
		"alias unasked": {func(db, other, web *Job) { db.Context.Provides = map[string]any{"conn": map[string]any{"as": "x"}} }, own},
		"two, one named": {func(db, other, web *Job) {
			other.Provides[0].Type = "sql"
			web.Context.Consumes = map[string]any{"db": map[string]any{"from": "conn"}}
		}, own},
		"two, one hidden": {func(db, other, web *Job) {
			other.Provides[0].Type = "sql"
			other.Context.Provides = map[string]any{"conn2": "nil"}
		}, own},
		"its own": {func(db, other, web *Job) {
			db.Provides = nil
			web.Provides = []artifact.Link{{Name: "db", Type: "sql"}}
		}, `{} "10.0.0.5" [["vm","id-1",0,"unknown","10.0.0.5",true]]`},
		"two":     {func(db, other, web *Job) { other.Provides[0].Type = "sql" }, "none"},
		"none":    {func(db, other, web *Job) { db.Provides = nil }, "none"},
		"hidden":  {func(db, other, web *Job) { db.Context.Provides = map[string]any{"conn": nil} }, "none"},
		"blocked": {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": "nil"} }, "none"},
		"null":    {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": nil} }, "none"},
		"by hand": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"address": "db.example", "properties": map[string]any{"port": 9}, "instances": []any{map[string]any{"address": "192.0.2.1"}}}}
		}, `{"port":9} "db.example" [[null,null,null,null,"192.0.2.1",null]]`},
		"by hand, address": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"address": "db.example"}}
		}, `{} "db.example" []`},
		"by hand, this instance": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"properties": map[string]any{"port": 9}}}
		}, strings.Replace(own, `{"port":5432,"tls":{"ca":"pem","off":null}}`, `{"port":9}`, 1)},
		"by hand, no instance": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"instances": []any{}, "properties": map[string]any{"port": 9}}}
		}, `{"port":9} nil []`},
		"by hand, all fields": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"instances": []any{map[string]any{"name": "n", "id": "i", "index": 1, "az": "z", "address": "a", "bootstrap": false}}}}
		}, `{} "a" [["n","i",1,"z","a",false]]`},
		"undeclared": {func(db, other, web *Job) { web.Consumes = nil }, "none"},
		"given": {func(db, other, web *Job) {
			web.Context.Links = map[string]any{"db": map[string]any{"properties": map[string]any{"a": 1}}}
		}, `{"a":1} nil []`},
		"connected elsewhere": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"from": "of another group"}}
			web.Context.Links = map[string]any{"db": map[string]any{"instances": []any{map[string]any{"index": 3, "address": "a"}}}}
			web.Context.Unlinked = map[string]string{}
		}, `{} "a" [[null,null,3,null,"a",null]]`},
		"missing elsewhere": {func(db, other, web *Job) { web.Context.Unlinked = map[string]string{"db": "no group provides it"} }, "none"},
	}
	e := start(t, cfg)
	for name, test := range tests {
		db, other, web := group(t, asks)
		test.change(&db, &other, &web)
		dir := t.TempDir()
		if err := e.Render(t.Context(), []Job{web, db, other}, dir); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := read(t, dir, "web", "f"); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
	}
}

// The address of a link with several instances is not simply that of the first instance.
func TestAddressOfSeveral(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, cfg Config) {
		_, _, web := group(t, `<%= link("db").address %>`)
		web.Context.Links = map[string]any{"db": map[string]any{"instances": []any{map[string]any{"address": "a"}, map[string]any{"address": "b"}}}}
		const want = `link 'db' has 2 instances and no address of its own: use its instances, for example link('db').instances.map(&:address)`
		if err := start(t, cfg).Render(t.Context(), []Job{web}, t.TempDir()); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		web.Context.Links["db"].(map[string]any)["address"] = "all"
		if err := start(t, cfg).Render(t.Context(), []Job{web}, t.TempDir()); err != nil {
			t.Error(err)
		}
	})
}

// TestMissingLinks has a template that uses a missing link, and manifests with
// mistakes in the description of a link.
func TestMissingLinks(t *testing.T) {
	t.Parallel()
	cfg := native(t)
	const asked = "template 'f' of job 'web' of release 'rel', line 1, in <% link('db') %>: there is no link 'db': "
	const prefix = "job 'web' of release 'rel': link 'db' is not available: "
	tests := map[string]struct {
		change func(db, other, web *Job)
		want   string
	}{
		"none":        {func(db, other, web *Job) { db.Provides = nil }, asked + "no job rendered together with it provides a link of type 'sql': give it at jobs[7].consumes.db"},
		"two":         {func(db, other, web *Job) { other.Provides[0].Type = "sql" }, asked + "several jobs provide a link of type 'sql': job 'db' as 'conn', job 'other' as 'conn2': give it at jobs[7].consumes.db"},
		"blocked":     {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": "nil"} }, asked + "the manifest says that there is none: give it at jobs[7].consumes.db"},
		"from nobody": {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": map[string]any{"from": "x"}} }, prefix + "no job rendered together with it provides 'x' of type 'sql'"},
		"from another": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"from": "conn2"}}
		}, prefix + "no job rendered together with it provides 'conn2' of type 'sql'"},
		"deployment": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"from": "x", "deployment": "y"}}
		}, prefix + "it belongs to deployment 'y', which is unknown here"},
		"no map": {func(db, other, web *Job) { web.Context.Consumes = map[string]any{"db": "conn"} }, prefix + "the manifest must describe it as a map"},
		"bad instances": {func(db, other, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"instances": "x"}}
		}, prefix + "its instances have the wrong type"},
	}
	e := start(t, cfg)
	for name, test := range tests {
		db, other, web := group(t, "<% link('db') %>")
		test.change(&db, &other, &web)
		err := e.Render(t.Context(), []Job{web, db, other}, t.TempDir())
		var failures *Failures
		if !errors.As(err, &failures) || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: got\n%v\nwant\n%s", name, err, test.want)
		}
	}
}

// TestMissingLinkProperties has templates that read a missing property of a link: the
// message names the job that provides the link, not the one that reads it.
func TestMissingLinkProperties(t *testing.T) {
	t.Parallel()
	each(t, testMissingLinkProperties)
}

func testMissingLinkProperties(t *testing.T, cfg Config) {
	tests := map[string]struct {
		template string
		change   func(db, web *Job)
		want     string
	}{
		"shared": {"<% link('db').p('tls.off') %>", func(db, web *Job) { db.Context.PropertiesPath = "jobs[1].properties" },
			"link 'db' has no value for property 'tls.off': job 'db' provides the link: set it at jobs[1].properties.tls.off"},
		"not shared": {"<% link('db').p(%w[secret x]) %>", func(db, web *Job) {},
			"link 'db' has no value for property 'secret' or 'x': job 'db', which provides the link as 'conn', does not share 'secret' or 'x': describe the link with instances and properties at jobs[7].consumes.db"},
		"by hand": {"<% link('db').p(%w[a b]) %>", func(db, web *Job) {
			web.Context.Consumes = map[string]any{"db": map[string]any{"instances": []any{}}}
		}, "link 'db' has no value for property 'a' or 'b': set it at jobs[7].consumes.db.properties.a or jobs[7].consumes.db.properties.b"},
		"of an instance": {"<% link('db').instances[0].p('port') %>", func(db, web *Job) {},
			"an instance of link 'db' has no value for property 'port': an instance has only the properties that jobs[7].consumes.db.instances of the manifest give it; a template finds those of the link with link('db').p"},
	}
	e := start(t, cfg)
	for name, test := range tests {
		db, other, web := group(t, test.template)
		test.change(&db, &web)
		err := e.Render(t.Context(), []Job{web, db, other}, t.TempDir())
		if !strings.HasSuffix(fmt.Sprint(err), ": "+test.want) {
			t.Errorf("%s: got\n%v\nwant\n%s", name, err, test.want)
		}
	}
}
