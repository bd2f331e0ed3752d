//go:build linux

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestZookeeperEnsemble deploys examples/zookeeper with five servers, then with three and
// with five again. The servers themselves say which there are, with the same myid at the
// same address all the time. A client keeps one session, with a node that goes with it,
// and writes and reads all the time.
func TestZookeeperEnsemble(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("java is not installed; .ci/install does that")
	}
	if _, err := os.Stat("/usr/share/java/zookeeper.jar"); err != nil {
		t.Skip("libzookeeper-java is not installed; .ci/install does that")
	}
	t.Parallel()
	c := newCluster(t, "zookeeper")
	c.must("deploy", "--yes")
	zookeeperServe(t, 5)
	if _, err := c.command("plan"); err != nil {
		t.Fatalf("there is something to do after the deploy: %v", err)
	}

	client := &zookeeperClient{}
	begin := time.Now()
	if err := client.use(func() error { return client.call(zookeeperCreate, "/value") }); err != nil {
		t.Fatal(err)
	}
	var longest time.Duration
	writing := startClient(t, []string{"any"}, func(string) error {
		client.written++
		start := time.Now()
		err := client.use(client.writeAndRead)
		longest = max(longest, time.Since(start))
		return err
	})
	for _, n := range []int{3, 5} {
		c.change("zookeeper.yml", fmt.Sprintf("instances: %d", 8-n), fmt.Sprintf("instances: %d", n))
		out := c.must("deploy", "--yes")
		if !strings.Contains(out, "zookeeper: serves all the time") {
			t.Errorf("the plan does not say that the ensemble serves:\n%s", out)
		}
		zookeeperServe(t, n)
	}
	asked, failed := writing()
	t.Logf("%d values were written and read in %s during the changes, the slowest in %s", asked, time.Since(begin).Round(time.Second), longest.Round(time.Millisecond))
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d values were not written and read: %v", len(failed), asked, failed)
	}
	if client.sessions != 1 {
		t.Errorf("the client had %d sessions", client.sessions)
	}
}

// zookeeperServers returns the addresses of the first servers: those of examples/zookeeper.
func zookeeperServers(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("127.53.0.%d", 2+i))
	}
	return list
}

// zookeeperServe waits until n servers know each other by their addresses, each has the
// myid of its index, and one of them leads the others.
func zookeeperServe(t *testing.T, n int) {
	t.Helper()
	var want []string
	for i, s := range zookeeperServers(n) {
		want = append(want, fmt.Sprintf("server.%d=%s:2888:3888:participant;%s:2181", i+1, s, s))
	}
	eventually(t, func() error {
		leaders := 0
		for i, s := range zookeeperServers(n) {
			conf, err := zookeeperAsk(s, "conf")
			if err != nil {
				return err
			}
			var got []string
			for line := range strings.Lines(conf) {
				if strings.HasPrefix(line, "server.") {
					got = append(got, strings.TrimSpace(line))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || !strings.Contains(conf, fmt.Sprintf("serverId=%d\n", i+1)) {
				return fmt.Errorf("%s, server %d, says %s\nwant the servers %v", s, i+1, conf, want)
			}
			status, err := zookeeperAsk(s, "mntr")
			if err != nil {
				return err
			}
			if strings.Contains(status, "zk_server_state\tleader\n") {
				if leaders++; !strings.Contains(status, fmt.Sprintf("zk_synced_followers\t%d", n-1)) {
					return fmt.Errorf("%s does not lead %d servers: %s", s, n-1, status)
				}
			} else if !strings.Contains(status, "zk_server_state\tfollower\n") {
				return fmt.Errorf("%s neither leads nor follows: %s", s, status)
			}
		}
		if leaders != 1 {
			return fmt.Errorf("there are %d leaders", leaders)
		}
		return nil
	})
}

// zookeeperAsk asks a server with a command of four letters.
func zookeeperAsk(server, command string) (string, error) {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(server, "2181"), 10*time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// zookeeperClient is a client with one session: a few messages of ZooKeeper's protocol
// (zookeeper.jute and ZooDefs.java of its sources).
type zookeeperClient struct {
	session  int64
	password []byte
	sessions int // that the servers have begun
	written  int

	conn net.Conn
	next int // server that is tried
}

// The types of requests.
const (
	zookeeperCreate int32 = 1
	zookeeperGet    int32 = 4
	zookeeperSet    int32 = 5
)

// sessionTime is the time after which the servers end a session whose client is silent.
const sessionTime = 40 * time.Second

// use calls do with a connection to any server. As every client does, it goes to another
// one if a server does not answer, until the session is over.
func (z *zookeeperClient) use(do func() error) error {
	var errs []error
	for end := time.Now().Add(sessionTime); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		err := z.connect()
		if err == nil {
			err = do()
			z.conn.Close()
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		z.next++
	}
	return errors.Join(errs[max(0, len(errs)-10):]...)
}

// connect begins the session, or continues it at another server.
func (z *zookeeperClient) connect() (err error) {
	servers := zookeeperServers(5)
	z.conn, err = net.DialTimeout("tcp", net.JoinHostPort(servers[z.next%len(servers)], "2181"), 10*time.Second)
	if err != nil {
		return err
	}
	reply, err := z.exchange(int32(0), int64(0), int32(sessionTime.Milliseconds()), z.session, z.passwordOrNone())
	if err == nil && (len(reply) < 36 || binary.BigEndian.Uint32(reply[4:]) == 0) {
		z.session = 0
		err = errors.New("the session is over")
	}
	if err != nil {
		z.conn.Close()
		return err
	}
	if session := int64(binary.BigEndian.Uint64(reply[8:])); session != z.session {
		z.session, z.sessions = session, z.sessions+1
	}
	z.password = reply[20:36]
	return nil
}

func (z *zookeeperClient) passwordOrNone() []byte {
	if z.session == 0 {
		return make([]byte, 16)
	}
	return z.password
}

// writeAndRead writes a value, and reads it again from the same server.
func (z *zookeeperClient) writeAndRead() error {
	value := []byte(fmt.Sprint(z.written))
	if err := z.call(zookeeperSet, "/value", value, int32(-1)); err != nil {
		return err
	}
	reply, err := z.request(zookeeperGet, "/value", false)
	if err == nil && !bytes.HasPrefix(reply[min(4, len(reply)):], value) {
		err = fmt.Errorf("read %q after %s was written", reply, value)
	}
	return err
}

// call sends a request whose answer says nothing.
func (z *zookeeperClient) call(kind int32, fields ...any) error {
	if kind == zookeeperCreate { // empty data, everybody may do everything, and the node goes with the session
		fields = []any{fields[0], []byte{}, int32(1), int32(31), "world", "anyone", int32(1)}
	}
	_, err := z.request(kind, fields...)
	return err
}

// request sends a request, and returns its answer without the head.
func (z *zookeeperClient) request(kind int32, fields ...any) ([]byte, error) {
	reply, err := z.exchange(append([]any{int32(1), kind}, fields...)...)
	if err != nil {
		return nil, err
	}
	if len(reply) < 16 {
		return nil, io.ErrUnexpectedEOF
	}
	const exists = -110 // of an earlier try
	if code := int32(binary.BigEndian.Uint32(reply[12:])); code != 0 && (code != exists || kind != zookeeperCreate) {
		return nil, fmt.Errorf("the request %d failed with %d", kind, code)
	}
	return reply[16:], nil
}

// exchange sends a message and returns the next one.
func (z *zookeeperClient) exchange(fields ...any) ([]byte, error) {
	if err := z.conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	var message bytes.Buffer
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			_ = binary.Write(&message, binary.BigEndian, int32(len(f)))
			message.WriteString(f)
		case []byte:
			_ = binary.Write(&message, binary.BigEndian, int32(len(f)))
			message.Write(f)
		default:
			if err := binary.Write(&message, binary.BigEndian, f); err != nil {
				return nil, err
			}
		}
	}
	head := binary.BigEndian.AppendUint32(nil, uint32(message.Len()))
	if _, err := z.conn.Write(append(head, message.Bytes()...)); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(z.conn, head); err != nil {
		return nil, err
	}
	reply := make([]byte, min(binary.BigEndian.Uint32(head), 1<<20))
	_, err := io.ReadFull(z.conn, reply)
	return reply, err
}
