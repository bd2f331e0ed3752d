package source

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A list is fetched with headers from a server whose certificate is verified. A redirect is
// not followed, because the headers would go elsewhere.
func TestListOfServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "https://elsewhere.example/list", http.StatusFound)
		case r.URL.Path == "/huge":
			_, _ = w.Write(make([]byte, maxAnswer+1))
		case r.Header.Get("Authorization") != "Bearer s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`[]`))
		}
	}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Getenv: func(string) string { return "" }}
	headers := map[string]string{"Authorization": "Bearer s3cret"}
	for _, one := range []struct {
		list List
		want string
	}{
		{List{URL: server.URL + "/list", CA: ca, Headers: headers}, ""},
		{List{URL: server.URL + "/list", CA: ca}, "the server answers 401 Unauthorized"},
		{List{URL: server.URL + "/list", Headers: headers}, "name the CA of the server's certificate as ca"},
		{List{URL: server.URL + "/list", CA: ca + "x"}, "cannot read"},
		{List{URL: server.URL + "/moved", CA: ca, Headers: headers}, "it redirects to elsewhere.example"},
		{List{URL: server.URL + "/huge", CA: ca, Headers: headers}, "larger than the limit of 2 MiB"},
	} {
		got, err := c.ReadList(t.Context(), one.list)
		switch {
		case one.want == "" && (err != nil || string(got) != "[]"):
			t.Errorf("%q, %v", got, err)
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "s3cret")):
			t.Errorf("%s: %v, want %s", one.list.URL, err, one.want)
		}
	}
	if name := (List{URL: "https://b/list?token=s3cret"}).Name(); name != "https://b/list" {
		t.Error(name)
	}
	ctx, end := context.WithCancel(t.Context())
	end()
	if _, err := c.ReadList(ctx, List{URL: server.URL + "/list", CA: ca}); err == nil {
		t.Error("a canceled request succeeded")
	}
}
