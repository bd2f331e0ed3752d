package cpi

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// birthOf returns when a running process began, in ticks since the boot with
// that id; a zombie does not run.
func birthOf(pid int) (string, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", false
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", false
	}
	// The name in parentheses can contain anything, parentheses too.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", false
	}
	return strings.TrimSpace(string(boot)) + "/" + fields[19], true
}
