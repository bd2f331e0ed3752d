// Package artifact fetches and reads the downloads of a manifest, releases and
// stemcells: verified, kept in a content-addressed cache, and extracted safely.
package artifact
