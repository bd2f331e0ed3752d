package teamtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"bootstrap/internal/wait"
)

// The credentials of the S3 server, which its clients read from the environment.
const (
	KeyID  = "bootstrap"
	Secret = "a secret of the tests"
)

// Bucket is the bucket of the S3 server.
const Bucket = "team"

// S3 starts versitygw, compiled once for this machine, and returns its URL. It skips
// the test if the server is not available.
func S3(t testing.TB) string {
	t.Helper()
	url, stop, err := StartS3(t.Context(), t.TempDir())
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

// ErrMissing says that the server is not available.
var ErrMissing = errors.New("there is no S3 server")

// StartS3 is like S3, for callers that stop the server themselves. The server keeps its
// files in a folder.
func StartS3(ctx context.Context, folder string) (url string, stop func(), err error) {
	program, err := s3Program(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("%w: %v", ErrMissing, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address := listener.Addr().String()
	_ = listener.Close()
	cmd := exec.Command(program, folder, address) // #nosec G204 -- the server of a test
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+KeyID, "AWS_SECRET_ACCESS_KEY="+Secret)
	stdin, err := cmd.StdinPipe() // the server ends when this closes, also when the test is killed
	if err != nil {
		return "", nil, err
	}
	output, err := os.Create(filepath.Join(folder, "s3.log"))
	if err != nil {
		return "", nil, err
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	url = "http://" + address
	err = wait.Poll(ctx, 20*time.Millisecond, func() (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
		}
		return err == nil, nil
	})
	if err != nil {
		stop()
		text, _ := os.ReadFile(output.Name())
		return "", nil, fmt.Errorf("the S3 server does not answer: %w: %s", err, text)
	}
	return url, stop, nil
}

// Build compiles the server, for a process that starts it later.
func Build(ctx context.Context) error {
	_, err := s3Program(ctx)
	return err
}

// s3Source returns the folder of the server: beside this file, or, for a program that was
// compiled with -trimpath and does not know its own source, above the folder of the test.
func s3Source() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for _, dir := range []string{filepath.Dir(here), wd} {
		for filepath.IsAbs(dir) {
			source := filepath.Join(dir, ".ci", "s3server")
			if _, err := os.Stat(source); err == nil {
				return source, nil
			}
			if filepath.Dir(dir) == dir {
				break
			}
			dir = filepath.Dir(dir)
		}
	}
	return "", fmt.Errorf("no folder above %s or %s has %s", here, wd, filepath.Join(".ci", "s3server"))
}

// s3Program returns the path of the server, and compiles it if necessary.
func s3Program(ctx context.Context) (string, error) {
	source, err := s3Source()
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(source, "go.sum"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "bootstrap-test", fmt.Sprintf("s3server-%x", digest(sum)))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(program), "build-") // Several tests may build it at the same time.
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	new := filepath.Join(dir, "s3server")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", new, ".") // #nosec G204 -- go, for a test
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return program, os.Rename(new, program)
}

func digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:6]
}
