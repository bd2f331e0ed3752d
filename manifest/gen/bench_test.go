package gen

import "testing"

func BenchmarkGenerate(b *testing.B) {
	v := values{}
	v.add(b, "certificate", "rsa", map[string]any{"is_ca": true})
	v.add(b, "certificate", "ecdsa", quick(map[string]any{"is_ca": true}))
	for _, c := range []struct {
		name, kind string
		options    map[string]any
	}{
		{"password", "password", nil},
		{"user", "user", nil},
		{"ssh-rsa2048", "ssh", nil},
		{"ssh-ed25519", "ssh", map[string]any{"key_type": "ed25519"}},
		{"rsa2048", "rsa", nil},
		{"certificate-rsa2048", "certificate", map[string]any{"ca": "rsa", "key_length": 2048}},
		{"certificate-rsa3072", "certificate", map[string]any{"ca": "rsa"}},
		{"certificate-rsa4096", "certificate", map[string]any{"ca": "rsa", "key_length": 4096}},
		{"certificate-ecdsa", "certificate", quick(map[string]any{"ca": "ecdsa"})},
		{"certificate-ed25519", "certificate", map[string]any{"ca": "ecdsa", "key_type": "ed25519"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := new(Keys).Generate(Definition{"v", c.kind, c.options}, v.find); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkKeys generates a CA and seven certificates that it signs.
func BenchmarkKeys(b *testing.B) {
	defs := []Definition{{"ca", "certificate", map[string]any{"is_ca": true}}}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		defs = append(defs, Definition{name, "certificate", map[string]any{"ca": "ca", "common_name": name}})
	}
	for _, name := range []string{"when needed", "expected"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var keys Keys
				v := values{}
				for _, d := range defs {
					if name == "expected" {
						keys.Expect(d)
					}
				}
				for _, d := range defs {
					value, err := keys.Generate(d, v.find)
					if err != nil {
						b.Fatal(err)
					}
					v[d.Name] = value
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	v := values{}
	ca := map[string]any{"is_ca": true}
	v.add(b, "certificate", "ca", ca)
	leaf := Definition{"leaf", "certificate", map[string]any{"ca": "ca", "common_name": "x", "alternative_names": []any{"x"}}}
	v.add(b, leaf.Type, leaf.Name, leaf.Options)
	for b.Loop() {
		if list := Check(leaf, v["leaf"], v.find, v.certificate(b, "leaf").NotBefore, month); len(list) != 0 {
			b.Fatal(findings(list))
		}
	}
}
