package instance

import (
	"context"
	"fmt"
	"strings"

	"bootstrap/internal/sealed"
	"bootstrap/state/team"
)

// linksOf returns the name, in messages, of the links that the deployment of a store shares.
func linksOf(t *team.Copy) string { return "links.json.age of " + t.Place() }

// SendLinks writes the links that the deployment shares to its store, encrypted, unless the
// store has the same: same compares its text. It returns false if there are no recipients.
// This run must hold the lock of the deployment.
func (sh *Shared) SendLinks(ctx context.Context, text []byte, same func([]byte) bool) (sent bool, err error) {
	t, keys := sh.rec.From.Team, sh.rec.From.Inputs.Keys
	to := sh.recipients(ctx)
	if len(to) == 0 {
		return false, t.RemoveLinks(ctx) // they could be outdated
	}
	data, err := t.Links(ctx)
	if err != nil {
		return false, err
	}
	if data != nil {
		if old, _, err := keys.Open(ctx, linksOf(t), data); err == nil && same(old) {
			return true, nil
		}
	}
	if err := t.ShareKey(ctx, to, false); err != nil {
		return false, err
	}
	if data, err = keys.Seal(ctx, linksOf(t), text, to); err != nil {
		return false, err
	}
	return true, t.SaveLinks(ctx, data)
}

// ReadLinks reads the links that the deployment with a store shares; nil: none. address may
// end with #FINGERPRINT, of its state key. place is the store for people.
func ReadLinks(ctx context.Context, c Config, keys *sealed.Keys, address string) (text []byte, place string, err error) {
	address, fingerprint, _ := strings.Cut(address, "#")
	c.Secret(team.Secrets(address)...)
	given, err := team.ParseGiven(fingerprint)
	if err == nil && !team.IsAddress(address) {
		err = fmt.Errorf("%s is not the address of a store", address)
	}
	if err != nil {
		return nil, team.Place(address), err
	}
	s, err := team.Open(ctx, address, team.Config{Holder: c.Holder, Getenv: c.Getenv, Given: given, Keys: keys})
	if err != nil {
		return nil, team.Place(address), err
	}
	defer s.Close()
	t := team.CopyOf(c.Home, s)
	data, err := t.LinksOfOther(ctx)
	if err == nil && data != nil {
		text, _, err = keys.Open(ctx, linksOf(t), data)
	}
	return text, t.Place(), err
}
