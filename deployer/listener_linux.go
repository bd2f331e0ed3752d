package deployer

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening is the state of a socket that listens, in /proc/net/tcp.
const listening = "0A"

// listenerAt names the process that listens at a TCP port of this machine, as
// far as this user may see it; empty: unknown.
func listenerAt(port string) string {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		listeningSockets(table, fmt.Sprintf(":%04X", number), sockets)
	}
	if len(sockets) == 0 {
		return ""
	}
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}
	for _, link := range links {
		to, err := os.Readlink(link)
		if err != nil || !sockets[to] {
			continue
		}
		pid := strings.Split(link, "/")[2]
		command, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil {
			continue
		}
		return fmt.Sprintf("process %s (%s)", pid, nameOf(strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")))
	}
	return ""
}

// listeningSockets adds the sockets of a table that listen at the port, as the
// links in /proc/PID/fd spell them.
func listeningSockets(table, port string, into map[string]bool) {
	f, err := os.Open(table)
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode
		field := strings.Fields(lines.Text())
		if len(field) > 9 && strings.HasSuffix(field[1], port) && field[3] == listening {
			into["socket:["+field[9]+"]"] = true
		}
	}
}

// nameOf is how a process is called: its program without the arguments, which may
// be secrets, but the folder of an embedded VM.
func nameOf(args []string) string {
	name := filepath.Base(args[0])
	if len(args) == 4 && args[1] == "plugin" && args[2] == "agent" {
		name += " plugin agent " + args[3]
	}
	return name
}
