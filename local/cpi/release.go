// Package local is the embedded CPI: its VMs are folders with an agent process
// on this machine, its disks are folders. It is started like any other CPI, one
// process per call, by bin/cpi of its release local-cpi.
package cpi

import (
	"embed"
	"io/fs"
)

//go:embed release stemcell
var files embed.FS

// Release is the folder of the release local-cpi. Its job local_cpi has the
// template bin/cpi; its package local_cpi contains no program.
func Release() fs.FS { return sub("release") }

// Stemcell is the folder of the light stemcell local-stemcell: stemcell.MF and
// an empty image.
func Stemcell() fs.FS { return sub("stemcell") }

func sub(dir string) fs.FS {
	folder, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the folder is compiled in
	}
	return folder
}
