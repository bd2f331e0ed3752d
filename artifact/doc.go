// Package artifact fetches and reads what a manifest downloads: releases and
// stemcells, verified, kept in a content-addressed cache, extracted safely.
package artifact
