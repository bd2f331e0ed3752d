package cache

import (
	"io/fs"
	"syscall"
)

func (id *Identity) system(info fs.FileInfo) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.Device, id.Inode, id.CTime = uint64(st.Dev), st.Ino, st.Ctim.Nano()
	}
}
