package tunnel

// CheckLogin tells what keeps this side from logging in, as far as it can be
// known without connecting to the host: a key that cannot be read, a missing
// passphrase, an ssh-agent that does not answer.
func CheckLogin(cfg Config) error {
	_, err := newAuth(cfg)
	return err
}
