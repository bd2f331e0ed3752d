//go:build !unix

package cmd

import "io/fs"

func isRoot() bool { return false }

func worldWritable(fs.FileInfo) bool { return false }

func otherOwner(fs.FileInfo) (string, bool) { return "", false }

func giveBack(string) {}
