package addresses_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go4.org/netipx"

	"bootstrap/addresses"
	"bootstrap/network"
)

// task is what this test binary does in another process.
type task struct {
	Do      string // reserve, live, fill or change
	Address string
	Name    string // name of the deployment
	Tries   int
	Range   netip.Prefix
	KillAt  int // the statement before which the process kills itself; 0: none
}

const taskVariable = "ADDRESSES_TEST_TASK"

func TestMain(m *testing.M) {
	text := os.Getenv(taskVariable)
	if text == "" {
		code := m.Run()
		if shared.server != nil {
			shared.server.Close()
		}
		os.Exit(code)
	}
	var todo task
	err := json.Unmarshal([]byte(text), &todo)
	if err == nil {
		err = todo.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process returns a command that runs the task in another process.
func (c task) process(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), taskVariable+"="+string(text))
	return cmd
}

func (c task) owner(instance int) network.Owner {
	return network.Owner{Deployment: fmt.Sprintf("id-of-%s-%d", c.Name, instance), Name: c.Name, Instance: fmt.Sprintf("g/%d", instance)}
}

func (c task) networks() []network.Network {
	return []network.Network{{Name: "a", Type: network.Manual, Subnets: []network.Subnet{{
		Range: c.Range, Gateway: c.Range.Addr().Next(), Prefix: c.Range.Addr().BitLen(),
	}}}}
}

// instance returns an instance that asks for any address, or for the static one.
func (c task) instance(i int, vm string) network.Instance {
	return network.Instance{Owner: c.owner(i), VM: vm, Wishes: []network.Wish{{Network: "a"}}}
}

func (c task) run() error {
	ctx := context.Background()
	if c.Do == "reserve" { // all processes begin at the same time
		fmt.Println("ready")
		if _, err := io.ReadAll(os.Stdin); err != nil {
			return err
		}
	}
	n := 0
	l, err := addresses.OpenTraced(ctx, c.Address, func(string) {
		if n++; n == c.KillAt {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
	})
	if err != nil {
		return err
	}
	switch c.Do {
	case "reserve":
		err = c.reserve(ctx, l)
	case "live":
		err = c.live(ctx, l)
	case "fill":
		err = c.fill(ctx, l)
	case "change":
		err = c.change(ctx, l)
	}
	if err == nil && c.KillAt > 0 {
		fmt.Println("survived")
	}
	return errors.Join(err, l.Close())
}

// reserve reserves one address for each of its instances and prints the addresses.
func (c task) reserve(ctx context.Context, l *addresses.Ledger) error {
	for i := range c.Tries {
		outcomes, err := l.Reserve(ctx, c.Name, c.networks(), []network.Instance{c.instance(i, "")})
		var refused *network.Refused
		if errors.As(err, &refused) && refused.Kind == network.NotEnoughCapacity {
			fmt.Println("full")
			continue
		}
		if err != nil {
			return err
		}
		fmt.Println(outcomes[0].Changes[0].Reservation.Block)
	}
	return nil
}

// live creates an instance with a VM, gives it another address, and deletes another
// instance.
func (c task) live(ctx context.Context, l *addresses.Ledger) error {
	for i := range 2 {
		outcomes, err := l.Reserve(ctx, "first run", c.networks(), []network.Instance{c.instance(i, "")})
		if err != nil {
			return err
		}
		if _, err := l.Record(ctx, c.owner(i), "vm-1", []network.Reservation{outcomes[0].Changes[0].Reservation}); err != nil {
			return err
		}
	}
	in := c.instance(0, "vm-1")
	in.Swap, in.Replace = true, true
	outcomes, err := l.Reserve(ctx, "second run", c.networks(), []network.Instance{in})
	if err != nil {
		return err
	}
	if _, err := l.Record(ctx, in.Owner, "vm-2", []network.Reservation{outcomes[0].Changes[0].Reservation}, "vm-1"); err != nil {
		return err
	}
	if _, err := l.ReleaseVM(ctx, in.Owner.Deployment, "vm-1"); err != nil {
		return err
	}
	if _, err := l.Reserve(ctx, "third run", c.networks(), []network.Instance{c.instance(2, "")}); err != nil {
		return err
	}
	if _, err := l.Undo(ctx, in.Owner.Deployment, "third run"); err != nil {
		return err
	}
	held, err := l.List(ctx, addresses.Filter{Deployment: in.Owner.Deployment})
	if err != nil {
		return err
	}
	_, err = l.Release(ctx, held...)
	return err
}

// databases runs the test on an empty ledger in a file, and on one in a PostgreSQL
// server.
func databases(t *testing.T, test func(t *testing.T, empty func(t *testing.T) string)) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T) string { return file(t) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T) string { return schema(t) })
	})
}

// Fifty programs, or twenty with -short, that reserve at the same time never get the
// same address, lose none, and use all free ones.
func TestProcessesReserveAtOnce(t *testing.T) {
	databases(t, func(t *testing.T, empty func(t *testing.T) string) {
		processes, tries, bits := 50, 3, 25
		if testing.Short() {
			processes, bits = 20, 27
		}
		c := task{Do: "reserve", Address: empty(t), Tries: tries, Range: netip.PrefixFrom(netip.MustParseAddr("10.0.0.0"), bits)}
		free := 1<<(32-bits) - 3
		type child struct {
			cmd   *exec.Cmd
			start io.Closer
			out   *bufio.Scanner
			name  string
		}
		var children []child
		for i := range processes {
			c.Name = fmt.Sprintf("d%d", i)
			cmd := c.process(t)
			cmd.Stderr = os.Stderr
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			children = append(children, child{cmd, stdin, bufio.NewScanner(stdout), c.Name})
		}
		for _, child := range children {
			child.out.Scan()
		}
		began := time.Now()
		for _, child := range children {
			child.start.Close()
		}
		got, full := map[netip.Prefix]string{}, 0
		for _, child := range children {
			for child.out.Scan() {
				if child.out.Text() == "full" {
					full++
					continue
				}
				block, err := netip.ParsePrefix(child.out.Text())
				if err != nil {
					t.Fatal(err)
				}
				if other, taken := got[block]; taken {
					t.Errorf("%s and %s both got %s", other, child.name, block)
				}
				got[block] = child.name
			}
			if err := child.cmd.Wait(); err != nil {
				t.Errorf("%s: %v", child.name, err)
			}
		}
		t.Logf("%d processes reserved %d addresses in %s", processes, len(got), time.Since(began))
		if len(got) != free || full != processes*tries-free {
			t.Errorf("%d addresses were reserved of %d, and %d tries of %d refused", len(got), free, full, processes*tries)
		}
		list, err := open(t, c.Address).List(t.Context(), addresses.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if got[r.Block] != r.Owner.Name {
				t.Errorf("%s is reserved for %s, but %q got it", r.Block, r.Owner, got[r.Block])
			}
		}
		if len(list) != len(got) {
			t.Errorf("%d reservations in the ledger, %d made", len(list), len(got))
		}
	})
}

// A program that is killed before any of its statements leaves the ledger as it was
// after a transaction, and the next run continues from there.
func TestKillAtEveryStatement(t *testing.T) {
	databases(t, func(t *testing.T, empty func(t *testing.T) string) {
		// The allowed contents of the ledger.
		c := task{Do: "live", Name: "d", Range: netip.MustParsePrefix("10.0.0.0/28")}
		whole := empty(t)
		var between []string
		observer := open(t, whole)
		l, err := addresses.OpenTraced(t.Context(), whole, func(statement string) {
			if strings.HasPrefix(statement, "BEGIN") {
				between = append(between, contents(t, observer))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.live(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		l.Close()
		between = append(between, contents(t, observer))
		kills, step := 0, 1
		if testing.Short() && strings.HasPrefix(whole, "postgres:") {
			step = 4 // The full run tries every statement, and this one every fourth, with SQLite.
		}
		for {
			c.Address, c.KillAt = empty(t), 1+kills*step
			out, err := c.process(t).CombinedOutput()
			if strings.Contains(string(out), "survived") {
				break
			}
			if err == nil || len(out) > 0 {
				t.Fatalf("statement %d: %v\n%s", c.KillAt, err, out)
			}
			kills++
			l := open(t, c.Address)
			if got := contents(t, l); !slices.Contains(between, got) {
				t.Errorf("killed before statement %d, the ledger has %s", c.KillAt, got)
			}
			c.goesOn(t, l)
		}
		t.Logf("%d kills", kills)
		if kills*step < 50 {
			t.Errorf("only %d kills", kills)
		}
	})
}

// contents returns the ledger as text, without times.
func contents(t *testing.T, l *addresses.Ledger) string {
	t.Helper()
	list, err := l.List(t.Context(), addresses.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, r := range list {
		text += fmt.Sprintf("%s %s %q %q; ", r.Block, r.Owner.Instance, r.VM, r.Run)
	}
	return text
}

// goesOn checks that the next run keeps the addresses of its instances.
func (c task) goesOn(t *testing.T, l *addresses.Ledger) {
	t.Helper()
	for i := range 3 {
		held, err := l.List(t.Context(), addresses.Filter{Deployment: c.owner(i).Deployment})
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := l.Reserve(t.Context(), "next run", c.networks(), []network.Instance{c.instance(i, "")})
		if err != nil {
			t.Fatal(err)
		}
		got := outcomes[0].Changes[0].Reservation
		if len(held) > 0 && !slices.ContainsFunc(held, func(r network.Reservation) bool { return r.Block == got.Block }) {
			t.Errorf("killed before statement %d: %s held %v and got %s", c.KillAt, c.owner(i), held, got.Block)
		}
		if _, err := l.Record(t.Context(), c.owner(i), "vm-next", []network.Reservation{got}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := l.List(t.Context(), addresses.Filter{})
	list = slices.DeleteFunc(list, func(r network.Reservation) bool { return r.Owner.Name != c.Name })
	if err != nil || len(list) != 3 {
		t.Errorf("killed before statement %d: after the next run, the deployment holds %v, %v", c.KillAt, list, err)
	}
}

// Programs that share a ledger and are killed at random leave it consistent.
func TestKillSeveralAtRandom(t *testing.T) {
	databases(t, func(t *testing.T, empty func(t *testing.T) string) {
		c := task{Do: "live", Address: empty(t), Range: netip.MustParsePrefix("10.0.0.0/24")}
		random := rand.New(rand.NewPCG(1, 2))
		for range 4 {
			var running []*exec.Cmd
			for i := range 6 {
				c.Name, c.KillAt = fmt.Sprintf("d%d", i), 1+random.IntN(90)
				cmd := c.process(t)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				running = append(running, cmd)
			}
			for _, cmd := range running {
				_ = cmd.Wait() // It was killed, or has ended.
			}
		}
		l := open(t, c.Address) // Closing it checks the ledger.
		for i := range 6 {
			c.Name = fmt.Sprintf("d%d", i)
			c.goesOn(t, l)
		}
		list, err := l.List(t.Context(), addresses.Filter{})
		if err != nil || len(list) != 18 {
			t.Errorf("%v, %v", list, err)
		}
		var used netipx.IPSetBuilder
		for _, r := range list {
			used.AddPrefix(r.Block)
		}
		if set, _ := used.IPSet(); !slices.ContainsFunc(set.Ranges(), func(r netipx.IPRange) bool { return r.From() == netip.MustParseAddr("10.0.0.2") }) {
			t.Errorf("the lowest address is not used: %v", set.Ranges())
		}
	})
}
