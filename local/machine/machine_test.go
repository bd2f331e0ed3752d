package machine

import "testing"

func TestPathsInCommands(t *testing.T) {
	t.Parallel()
	v := New("/vm")
	for text, want := range map[string]string{
		"/var/vcap": "/vm/vcap", "/var/vcap/jobs/x": "/vm/vcap/jobs/x", "cd /var/vcap/a && b": "cd /vm/vcap/a && b",
		"A=/var/vcap/a:/var/vcap/b": "A=/vm/vcap/a:/vm/vcap/b", "/var/vcapx": "/var/vcapx", "/x/var/vcap/y": "/x/var/vcap/y", "": "",
	} {
		if got := v.ResolveAll(text); got != want {
			t.Errorf("ResolveAll(%q) = %q, want %q", text, got, want)
		}
	}
	if got := v.Resolve("/var/vcapx/y"); got != "/var/vcapx/y" {
		t.Errorf("Resolve: %s", got)
	}
}
