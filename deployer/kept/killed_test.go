package kept

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// If a run is killed while it records a deploy, the current and the previous deploy are
// complete, either the old or the new ones. The next run continues.
func TestKilledWhileApplying(t *testing.T) {
	t.Parallel()
	archive := func(text string) string {
		path := filepath.Join(t.TempDir(), "rendered.tgz")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	of := func(digest string) Applied { return Applied{VM: "vm-1", Digest: digest} }
	has := func(f Folder, w Which) string {
		a, ok := f.Applied(w)
		if !ok {
			return "nothing"
		}
		data, err := os.ReadFile(f.Rendered(w))
		sketch, wrong := os.ReadFile(filepath.Join(f.appliedDir(w), "sketch.yml"))
		if err != nil || wrong != nil || string(data) != a.Digest || string(sketch) != a.Digest {
			return fmt.Sprintf("a part of %s: %q %q %v %v", a.Digest, data, sketch, err, wrong)
		}
		return a.Digest
	}
	for _, earlier := range []bool{false, true} { // true: with folders of earlier versions
		for _, push := range []bool{false, true} {
			for n := 0; ; n++ {
				f := At(t.TempDir())
				if earlier {
					for w, digest := range map[Which]string{Current: "two", Previous: "one"} {
						dir := filepath.Join("applied", string(w))
						err := errors.Join(f.write(filepath.Join(dir, appliedFile), of(digest)), f.writeSketch(filepath.Join(f.dir, dir), []byte(digest)),
							copyFile(archive(digest), filepath.Join(f.dir, dir, "rendered.tgz")))
						if err != nil {
							t.Fatal(err)
						}
					}
				} else if err := errors.Join(f.SetApplied(of("one"), []byte("one"), archive("one"), false), f.SetApplied(of("two"), []byte("two"), archive("two"), true)); err != nil {
					t.Fatal(err)
				}
				steps := f.applying(of("three"), []byte("three"), archive("three"), push)
				if n > len(steps) {
					break
				}
				if err := inOrder(steps[:n]); err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("earlier %t, push %t, killed after step %d", earlier, push, n)
				previous := map[bool]string{false: "one", true: "two"}[push]
				now := has(f, Current) + " " + has(f, Previous)
				if now != "two one" && now != "three "+previous {
					t.Errorf("%s: %s", name, now)
				}
				if err := f.SwapApplied(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if has(f, Previous)+" "+has(f, Current) != now {
					t.Errorf("%s: swapped %s %s", name, has(f, Current), has(f, Previous))
				}
				last := has(f, Current)
				if err := f.SetApplied(of("four"), []byte("four"), archive("four"), true); err != nil || has(f, Current)+" "+has(f, Previous) != "four "+last {
					t.Errorf("%s: then %s %s, %v", name, has(f, Current), has(f, Previous), err)
				}
				if entries, err := os.ReadDir(filepath.Join(f.dir, "applied")); err != nil || len(entries) != 3 {
					t.Errorf("%s: %d entries are left, %v", name, len(entries), err)
				}
			}
		}
	}
}
