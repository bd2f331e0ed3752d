package tunnel

// CheckLogin reports what will prevent a login, as far as that is known without a
// connection to the host: an unreadable key, a missing passphrase, an ssh-agent that
// does not answer.
func CheckLogin(cfg Config) error {
	_, err := newAuth(cfg)
	return err
}
