package tunnel

// CheckLogin returns errors that will prevent a login and can be found without a
// connection to the host: an unreadable key, a missing passphrase, an ssh-agent that does
// not answer.
func CheckLogin(cfg Config) error {
	_, err := newAuth(cfg)
	return err
}
