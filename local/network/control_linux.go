package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// Limits for clients of a VM's first process.
const (
	messageLimit = 4 << 10
	askTime      = 10 * time.Second
	maxAsking    = 256 // number of clients at the same time
)

// question is a request to the first process of a VM: for a connection from inside of the
// VM to an address, or, without an address, for the other ends of its interfaces.
type question struct {
	Network string `json:"network,omitempty"`
	Address string `json:"address,omitempty"`
}

// answer comes with descriptors, unless it has an error.
type answer struct {
	Error   string `json:"error,omitempty"`
	Refused bool   `json:"refused,omitempty"` // no process listens there
}

// Listen opens the socket at which a VM's first process hands out connections. dir is the
// VM's folder, or the path of a descriptor of it.
func Listen(dir string) (*net.UnixListener, error) {
	name := filepath.Join(dir, controlFile)
	_ = os.Remove(name) // an earlier start of the VM may have left it
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: name})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the VM's network: %w", err)
	}
	l.SetUnlinkOnClose(false) // inside, the file has another path
	return l, nil
}

// Serve hands out connections from inside of this process's network namespace, and the
// ends of its interfaces, until ctx ends.
func Serve(ctx context.Context, l *net.UnixListener, ends []*os.File) {
	defer guard.AfterDone(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, maxAsking)
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil {
			_ = wait.For(ctx, acceptPause) // for example, too many files are open
			continue
		}
		slots <- struct{}{}
		guard.Go(ctx, func() {
			defer func() { <-slots }()
			defer conn.Close()
			answerTo(ctx, conn, ends)
		})
	}
}

func answerTo(ctx context.Context, conn *net.UnixConn, ends []*os.File) {
	_ = conn.SetDeadline(time.Now().Add(askTime))
	text := make([]byte, messageLimit)
	n, err := conn.Read(text)
	var q question
	if err != nil || json.Unmarshal(text[:n], &q) != nil {
		return
	}
	if q.Address == "" {
		if send(conn, answer{}, ends...) != nil {
			return
		}
		// The connection ends with the VM, which the client notices.
		_ = conn.SetDeadline(time.Time{})
		_, _ = conn.Read(text)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	made, err := (&net.Dialer{}).DialContext(ctx, q.Network, q.Address)
	if err != nil {
		_ = send(conn, answer{Error: err.Error(), Refused: errors.Is(err, syscall.ECONNREFUSED)})
		return
	}
	defer made.Close()
	filer, ok := made.(interface{ File() (*os.File, error) })
	if !ok {
		return
	}
	file, err := filer.File()
	if err != nil {
		_ = send(conn, answer{Error: err.Error()})
		return
	}
	defer file.Close()
	_ = send(conn, answer{}, file)
}

func send(conn *net.UnixConn, a answer, files ...*os.File) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = conn.WriteMsgUnix(text, rights, nil)
	return err
}

// ask sends a request to the first process of the VM in dir, and returns the descriptors
// of its answer. The connection ends with the VM.
func ask(ctx context.Context, dir string, q question) (conn *net.UnixConn, files []*os.File, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime+time.Second)
	defer cancel()
	if conn, err = reach(ctx, dir); err != nil {
		return nil, nil, err
	}
	opened := conn // after an error there is no result
	defer func() {
		if err != nil {
			_ = opened.Close()
		}
	}()
	defer guard.AfterDone(ctx, func() { _ = opened.SetDeadline(time.Unix(1, 0)) })()
	text, err := json.Marshal(q)
	if err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(text); err != nil {
		return nil, nil, err
	}
	text = make([]byte, messageLimit)
	rights := make([]byte, unix.CmsgSpace(4*maxInterfaces))
	n, m, _, _, err := conn.ReadMsgUnix(text, rights)
	if err != nil {
		return nil, nil, err
	}
	if files, err = received(rights[:m]); err != nil {
		return nil, nil, err
	}
	var a answer
	switch err = json.Unmarshal(text[:n], &a); {
	case err != nil:
	case a.Refused:
		err = syscall.ECONNREFUSED
	case a.Error != "":
		err = errors.New(a.Error)
	case len(files) == 0:
		err = errors.New("the VM passed no connection")
	}
	if err != nil {
		closeAll(files)
		return nil, nil, err
	}
	return conn, files, nil
}

// maxInterfaces is the largest number of interfaces of a VM.
const maxInterfaces = 16

// reach connects to the socket in a folder, even if its path is too long for the name of
// a socket.
func reach(ctx context.Context, dir string) (*net.UnixConn, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unixpacket", filepath.Join(byDescriptor(folder), controlFile))
	if err != nil {
		return nil, fmt.Errorf("the VM does not run: %w", err)
	}
	return conn.(*net.UnixConn), nil
}

// byDescriptor returns a short path of an open folder for this process.
func byDescriptor(folder *os.File) string {
	return "/proc/self/fd/" + strconv.Itoa(int(folder.Fd()))
}

func received(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "from the VM"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Dial connects to an address from inside of the VM in dir. The VM makes the connection,
// so only addresses that the VM can reach are reachable.
func Dial(ctx context.Context, dir, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, dir, network, address)
	if err != nil {
		host, port, _ := net.SplitHostPort(address)
		addr, _ := netip.ParseAddr(host)
		number, _ := strconv.ParseUint(port, 10, 16)
		where := &net.TCPAddr{IP: addr.AsSlice(), Port: int(number)}
		return nil, &net.OpError{Op: "dial", Net: network, Addr: where, Err: err}
	}
	return conn, nil
}

func dial(ctx context.Context, dir, network, address string) (net.Conn, error) {
	control, files, err := ask(ctx, dir, question{Network: network, Address: address})
	if err != nil {
		return nil, err
	}
	defer control.Close()
	defer closeAll(files)
	conn, err := net.FileConn(files[0])
	if err != nil {
		return nil, err
	}
	switch conn.(type) {
	case *net.TCPConn, *net.UDPConn:
		return conn, nil
	}
	_ = conn.Close()
	return nil, errors.New("the VM sent something other than a connection")
}
