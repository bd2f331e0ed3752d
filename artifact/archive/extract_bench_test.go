package archive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/artifact/tartest"
)

func BenchmarkExtract(b *testing.B) {
	var small []tartest.Entry
	for i := range 2000 {
		small = append(small, tartest.File(fmt.Sprintf("a/b%d/c/file%d", i%20, i), "some text of a source file"))
	}
	for name, entries := range map[string][]tartest.Entry{"files": small, "large": {tartest.File("image", string(tartest.Body(64<<20)))}} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			data := tartest.Tgz(b, entries...)
			archive := tartest.Write(b, data, dir, "a.tgz")
			b.SetBytes(int64(len(data)))
			for i := 0; b.Loop(); i++ {
				to := filepath.Join(dir, fmt.Sprint(i))
				if err := Extract(context.Background(), archive, to, Limits{}); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				os.RemoveAll(to)
				b.StartTimer()
			}
		})
	}
}
