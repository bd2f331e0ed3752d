package scratch

import "os"

// Unnamed creates an empty temporary file of mode 0600. The file disappears when the last
// process that has it open has ended, whatever the reason. On Linux it never has a name,
// elsewhere only for a moment; if the system or the file system supports neither, the
// name stays until Discard.
func Unnamed() (*os.File, error) {
	if f, err := createUnnamed(os.TempDir()); err == nil {
		return f, nil
	}
	return unlinked()
}

// unlinked creates a file with a name and removes the name.
func unlinked() (*os.File, error) {
	f, err := os.CreateTemp("", "bootstrap-*")
	if err != nil {
		return nil, Explained(err)
	}
	_ = os.Remove(f.Name()) // fails on systems where open files keep their names
	return f, nil
}

// Discard closes a file and removes it if it has a name.
func Discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
