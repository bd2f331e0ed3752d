package ui

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// secretsOf returns the values of a vars store: passwords and, for each tenth, a
// certificate.
func secretsOf(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("secret-value-%d-%d", i, i*i)
		if i%10 == 0 {
			var b strings.Builder
			b.WriteString("-----BEGIN CERTIFICATE-----\n")
			for line := range 20 {
				fmt.Fprintf(&b, "MIIDETCCAfmgAwIBAgIRAJ%08d/%08d+NBgkqhkiG9w0BAQsFADANMQ\n", i, line)
			}
			list[i] = b.String() + "-----END CERTIFICATE-----\n"
		}
	}
	return list
}

// Each value is added by itself while sentences are printed, as by the instances of a
// deployment. Each reader of the vars store adds all of its values again.
func TestRedactorCosts(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := &Redactor{}
	list := secretsOf(3000)
	for i, secret := range list {
		r.Add(secret, "")
		r.Name(fmt.Sprintf("web/%d", i))
		if got, want := r.Shown("it is secret-value-1-1 of web/1"), "it is <redacted> of web/1"; i > 0 && got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	for range 100 {
		r.Add(list...)
	}
	// It takes 0.1 s. With an index that is made again after each value it takes minutes.
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("adding and printing %d secrets took %s", len(list), took)
	}
}

// Values are added while others print.
func TestRedactorAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 100 {
				secret := fmt.Sprintf("secret-%d-%d", g, i)
				r.Add(secret)
				r.Name(fmt.Sprintf("name-%d-%d", g, i))
				if got := r.Shown("of " + secret + "."); got != "of <redacted>." {
					t.Errorf("got %q", got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkRedactor(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		list := secretsOf(n)
		full := &Redactor{}
		full.Add(list...)
		const sentence = "Rendering the templates of web/1 with secret-value-1-1"
		b.Run(fmt.Sprintf("add/%d", n), func(b *testing.B) { // time for one value and one sentence
			for b.Loop() {
				r := &Redactor{}
				for _, secret := range list {
					r.Add(secret)
					r.Shown(sentence)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/value")
		})
		b.Run(fmt.Sprintf("again/%d", n), func(b *testing.B) {
			for b.Loop() {
				full.Add(list...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/value")
		})
		for _, kind := range []struct{ name, text string }{
			{"print", strings.Repeat("a line of a log that is long and harmless\n", 25000)},
			{"print-secrets", strings.Repeat("one with secret-value-7-49 of web/1\n", 30000)},
			{"print-certificates", strings.Repeat(list[0]+"-----BEGIN CERTIFICATE-----\nMIIDETCCAfmgAwIBAgIRAJ is another\n", 700)},
		} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				b.SetBytes(int64(len(kind.text)))
				for b.Loop() {
					full.Shown(kind.text)
				}
			})
		}
	}
}
