package team

import (
	"context"
	"net/url"
	"time"
)

// PutRaw writes a document without the lease.
func PutRaw(ctx context.Context, s *Store, name string, data []byte, was string) (string, error) {
	return s.docs.Put(ctx, name, data, was)
}

// GetRaw reads a document.
func GetRaw(ctx context.Context, s *Store, name string) (Document, error) {
	return s.docs.Get(ctx, name)
}

// OpenS3Skewed opens a bucket with a clock that is wrong by this much.
func OpenS3Skewed(ctx context.Context, u *url.URL, cfg Config, by time.Duration) (Documents, error) {
	docs, err := openS3(ctx, u, cfg)
	if err == nil {
		docs.(*web).client.Transport.(*signing).ahead.Store(int64(by))
	}
	return docs, err
}

// LeaseRenewed moves the last renewal of the lease into the past, and returns its time.
func LeaseRenewed(s *Store, ago time.Duration) time.Time {
	s.lease.mu.Lock()
	defer s.lease.mu.Unlock()
	s.lease.renewed = s.lease.renewed.Add(-ago)
	return s.lease.renewed
}

// Sighted returns the time from which a run measures the age of a lease that it sees for
// the first time in a place that does not report ages.
func Sighted(s *Store) time.Time {
	seen := sighting{age: -1}
	_, _ = s.over(held{}, "1", &seen)
	return seen.at
}

// Sign returns a document as the holder of a key signs it.
func Sign(k Key, name string, generation uint64, writer string, content []byte) []byte {
	return k.sign(name, generation, writer, content)
}

// Content returns a document without its proof, which it does not check.
func Content(data []byte) []byte {
	_, content, ok := split(data)
	if !ok {
		return data
	}
	return content
}

// Check returns an error unless a document is signed with a key.
func Check(k Key, name string, data []byte) error {
	judge := &trust{store: &Store{}, key: &k}
	if _, _, doubt := judge.judge(name, data); doubt != nil {
		return doubt
	}
	return nil
}
