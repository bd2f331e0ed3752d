//go:build unix

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// findBrowser returns the path of a Chromium; empty: none is installed.
func findBrowser() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(cmp.Or(name, "/")); err == nil {
			return path
		}
	}
	return ""
}

// browser is a Chromium that is controlled by the DevTools protocol: each message is one
// JSON object, followed by a zero byte.
type browser struct {
	ctx     context.Context
	to      io.Writer
	replies *bufio.Reader
	last    int    // id
	session string // session of the page
	answers []string
}

// startBrowser starts a Chromium with one empty page. It cannot use the network, because
// all names resolve to nothing.
func startBrowser(ctx context.Context, path, profile string) (*browser, func(), error) {
	fromUs, toIt, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	fromIt, toUs, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--host-resolver-rules=MAP * ~NOTFOUND",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{fromUs, toUs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // kills its helper processes, too
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	_, _ = fromUs.Close(), toUs.Close()
	b := &browser{ctx: ctx, to: toIt, replies: bufio.NewReader(fromIt)}
	end := func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		_, _ = toIt.Close(), fromIt.Close()
	}
	var made struct{ TargetID, SessionID string }
	err = b.do("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	if err == nil {
		err = b.do("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	}
	b.session = made.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		if err == nil {
			err = b.do(domain+".enable", nil, nil)
		}
	}
	if err != nil {
		end()
		return nil, nil, fmt.Errorf("cannot talk to %s: %w", path, err)
	}
	return b, end, nil
}

// devTools is a message of the protocol.
type devTools struct {
	ID      int                       `json:"id,omitempty"`
	Session string                    `json:"sessionId,omitempty"`
	Method  string                    `json:"method,omitempty"`
	Params  any                       `json:"params,omitempty"`
	Result  json.RawMessage           `json:"result,omitempty"`
	Error   *struct{ Message string } `json:"error,omitempty"`
}

// do sends a command and waits for its result.
func (b *browser) do(method string, params, result any) error {
	b.last++
	data, err := json.Marshal(devTools{ID: b.last, Session: b.session, Method: method, Params: params})
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(data, 0)); err != nil {
		return err
	}
	return b.until(func(m devTools) (bool, error) {
		switch {
		case m.ID != b.last:
			return false, nil
		case m.Error != nil:
			return true, fmt.Errorf("%s: %s", method, m.Error.Message)
		case result == nil:
			return true, nil
		}
		return true, json.Unmarshal(m.Result, result)
	})
}

// until reads messages until done returns true. It keeps complaints of the page or the
// browser, and the page's requests.
func (b *browser) until(done func(devTools) (bool, error)) error {
	for {
		data, err := b.replies.ReadBytes(0)
		if err != nil {
			return errors.Join(err, b.ctx.Err())
		}
		data = bytes.TrimSuffix(data, []byte{0})
		var m devTools
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		switch m.Method {
		case "Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Network.requestWillBeSent", "Page.javascriptDialogOpening":
			b.answers = append(b.answers, string(data))
		}
		if ok, err := done(m); ok || err != nil {
			return err
		}
	}
}

// open shows a file on a screen, with the colour scheme that the user prefers; if the
// scheme is "print", on paper.
func (b *browser) open(path, scheme string, width int) error {
	media, feature := "screen", scheme
	if scheme == "print" {
		media, feature = "print", "light"
	}
	err := b.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	if err == nil {
		err = b.do("Emulation.setEmulatedMedia", map[string]any{"media": media, "features": []any{map[string]any{"name": "prefers-color-scheme", "value": feature}}}, nil)
	}
	if err == nil {
		err = b.do("Page.navigate", map[string]any{"url": (&url.URL{Scheme: "file", Path: path}).String()}, nil)
	}
	if err != nil {
		return err
	}
	return b.until(func(m devTools) (bool, error) { return m.Method == "Page.loadEventFired", nil })
}

// ask evaluates an expression in the page. The policy of the page does not apply to it.
func (b *browser) ask(expression string, result any) error {
	var got struct {
		Result struct{ Value json.RawMessage }
		Failed *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if err := b.do("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &got); err != nil {
		return err
	}
	if got.Failed != nil {
		return fmt.Errorf("%s %s", got.Failed.Text, got.Failed.Exception.Description)
	}
	return json.Unmarshal(got.Result.Value, result)
}

// picture returns an image of the whole page.
func (b *browser) picture() (image.Image, []byte, error) {
	var got struct{ Data []byte }
	if err := b.do("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &got); err != nil {
		return nil, nil, err
	}
	drawn, err := png.Decode(bytes.NewReader(got.Data))
	return drawn, got.Data, err
}

// rows returns how many rows the accessibility tree has, which a screen reader uses.
func (b *browser) rows() (n int, err error) {
	var tree struct {
		Nodes []struct{ Role struct{ Value string } }
	}
	if err := b.do("Accessibility.getFullAXTree", nil, &tree); err != nil {
		return 0, err
	}
	for _, node := range tree.Nodes {
		if node.Role.Value == "row" {
			n++
		}
	}
	return n, nil
}

//go:embed testdata/measure.js
var measure string

// measured is the result of measure.js.
type measured struct {
	Problems []string
	Title    string
	Text     string
	Rows     int // rows of tables that are shown
	Runs     []struct {
		Shown bool                         // it is not inside of a closed element
		Bars  []struct{ From, To float64 } // shares of the lane
		Lane  struct{ Left, Top, Width, Height float64 }
		Shade string // the colour of the time when the service is down
		Page  string
	}
}

// browse FILE TIMELINES checks the page in a browser, on a phone's screen and on a wide
// screen, in both colour schemes and on paper: nothing is outside of the screen, every
// text is large enough and has enough contrast, the bars and the shade are where the
// timelines say, and the page loads nothing and runs no script. The text of the page is
// the output.
func browse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: browse FILE TIMELINES")
	}
	found, err := filepath.Glob(ts.MkAbs(args[1]))
	if err != nil || len(found) != 1 {
		ts.Fatalf("%v: %q", err, found)
	}
	var kept struct {
		Runs []struct {
			Seconds float64
			Down    []struct{ From, To float64 }
			Spans   []struct{ At, Seconds float64 }
		}
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(found[0])), &kept))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b, end, err := startBrowser(ctx, findBrowser(), ts.MkAbs(".chromium"))
	ts.Check(err)
	defer end()
	path := ts.MkAbs(args[0])
	for _, screen := range []struct {
		scheme string
		width  int
	}{{"light", 360}, {"dark", 1600}, {"dark", 360}, {"light", 1600}, {"print", 720}} {
		ts.Check(b.open(path, screen.scheme, screen.width))
		fail := func(format string, args ...any) {
			ts.Fatalf("%s, %d: %s", screen.scheme, screen.width, fmt.Sprintf(format, args...))
		}
		var got measured
		ts.Check(b.ask(measure, &got))
		if len(got.Problems) > 0 {
			fail("%s", strings.Join(got.Problems, "\n"))
		}
		if len(got.Runs) != len(kept.Runs) {
			fail("%d timelines, and %d are kept", len(got.Runs), len(kept.Runs))
		}
		drawn, data, err := b.picture()
		ts.Check(err)
		if dir := os.Getenv("PICTURES"); dir != "" {
			ts.Check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", screen.scheme, screen.width)), data, 0o600))
		}
		// The page shows the last deploy first, and then the others in their order.
		for i, run := range got.Runs {
			want := kept.Runs[i]
			if len(run.Bars) != len(want.Spans) {
				fail("timeline %d has %d bars, and %d are kept", i, len(run.Bars), len(want.Spans))
			}
			if !run.Shown {
				continue
			}
			for k, bar := range run.Bars {
				from, to := want.Spans[k].At/want.Seconds, (want.Spans[k].At+want.Spans[k].Seconds)/want.Seconds
				if slack := 3 / run.Lane.Width; math.Abs(bar.From-from) > slack || math.Abs(bar.To-to) > slack {
					fail("bar %d of timeline %d is at %.3f-%.3f, want %.3f-%.3f", k, i, bar.From, bar.To, from, to)
				}
			}
			// Above the first bar, within and outside the time when the service was down. A
			// mark of the axis is a point wide, and at any place.
			y := int(run.Lane.Top + 2)
			behind := func(x float64) string {
				c := colourAt(drawn, x, y)
				if c != run.Shade && c != run.Page {
					c = colourAt(drawn, x-3, y)
				}
				return c
			}
			for _, d := range want.Down {
				middle := (d.From + d.To) / 2 / want.Seconds
				if c := behind(run.Lane.Left + middle*run.Lane.Width + 1.5); c != run.Shade {
					fail("where the service was down the page is %s, want %s", c, run.Shade)
				}
				if before := d.From / want.Seconds * run.Lane.Width; before > 8 {
					if c := behind(run.Lane.Left + before - 4); c != run.Page {
						fail("just before the service was down the page is %s, want %s", c, run.Page)
					}
				}
			}
		}
		if n, err := b.rows(); err != nil || n != got.Rows {
			fail("a screen reader finds %d rows, and %d are shown: %v", n, got.Rows, err)
		}
		if screen.scheme == "light" {
			fmt.Fprintln(ts.Stdout(), got.Title+"\n"+got.Text)
		}
	}
	for _, answer := range b.answers {
		if !strings.Contains(answer, `"Network.requestWillBeSent"`) || strings.Count(answer, `"url":"file://`) == 0 || !strings.Contains(answer, filepath.Base(path)) {
			ts.Fatalf("the page is not quiet: %s", answer)
		}
	}
}

// colourAt returns the colour of a point as CSS writes it.
func colourAt(drawn image.Image, x float64, y int) string {
	r, g, b, _ := drawn.At(int(x), y).RGBA()
	return fmt.Sprintf("rgb(%d, %d, %d)", r>>8, g>>8, b>>8)
}
