package gen

// Form is the form of an option's value.
type Form string

// The forms of options.
const (
	Text  Form = "text"
	Texts Form = "texts" // a list of texts
	Whole Form = "whole" // a whole number
	Flag  Form = "flag"  // true or false
)

// Option describes an option of a type.
type Option struct {
	Name        string
	Form        Form
	Description string
	// Values are the allowed texts; nil if all are.
	Values []string
	// Most is the largest allowed number; 0: there is no limit.
	Most int
}

// Options returns the options of a type; ok is false if the type is unknown.
func Options(kind string) (list []Option, ok bool) {
	keyType := Option{"key_type", Text, "Kind of the key; rsa unless given.", []string{"rsa", "ecdsa", "ed25519"}, 0}
	keyLength := Option{"key_length", Whole, "Bits of the key: 2048, 3072 or 4096 for rsa, 256, 384 or 521 for ecdsa, 256 for ed25519.", nil, 4096}
	switch kind {
	case "password":
		return []Option{{"length", Whole, "Number of characters; 20 unless given.", nil, maxLength}}, true
	case "user":
		return []Option{
			{"username", Text, "Name of the user; a random one unless given.", nil, 0},
			{"length", Whole, "Number of characters of the password; 20 unless given.", nil, maxHashedLength},
		}, true
	case "ssh":
		return []Option{keyType, keyLength, {"ssh_comment", Text, "Comment of the public key.", nil, 0}}, true
	case "rsa":
		return []Option{keyLength}, true
	case "certificate":
		return append(certificateOptions(), keyType, keyLength), true
	}
	return nil, false
}

func certificateOptions() []Option {
	usages := make([]string, 0, len(keyUsages()))
	for _, u := range keyUsages() {
		usages = append(usages, u.name)
	}
	return []Option{
		{"common_name", Text, "Common name of the subject. Clients look at alternative_names alone.", nil, 0},
		{"organization", Text, "Organization of the subject.", nil, 0},
		{"organizations", Texts, "Organizations of the subject, in place of organization.", nil, 0},
		{"alternative_names", Texts, "Host names and IP addresses that the certificate is for.", nil, 0},
		{"is_ca", Flag, "Whether the certificate can sign others.", nil, 0},
		{"ca", Text, "Name of the variable with the CA that signs; a root CA has none.", nil, 0},
		{"key_usage", Texts, "What the key may be used for.", usages, 0},
		{"extended_key_usage", Texts, "Purposes of the certificate; server_auth unless given.", sortedKeys(extKeyUsages()), 0},
		{"duration", Whole, "Days for which the certificate is valid; 365 unless given.", nil, maxDuration},
	}
}

// allowedOptions returns the names of a type's options in the order of messages;
// ok is false if the type is unknown.
func allowedOptions(kind string) (names []string, ok bool) {
	list, ok := Options(kind)
	for _, o := range list {
		names = append(names, o.Name)
	}
	return names, ok
}
