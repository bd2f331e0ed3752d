package ui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"bootstrap/deployer/observe"
)

// InstanceStates prints the states of instances: a row for each; with ps also one for
// each process, and with vitals the load of each VM.
func InstanceStates(out *Writer, all *observe.InstanceStates, ps, vitals bool) {
	table := NewTable(out, "INSTANCE", "AZ", "ADDRESS", "STATE", "PROCESSES", "STEMCELL", "DEPLOYED").
		Yield("STEMCELL", 12).Yield("DEPLOYED", 10).Yield("STEMCELL", 0).Yield("DEPLOYED", 0).Yield("PROCESSES", 0)
	bootstraps := false
	for _, s := range all.Instances {
		name, deployed, processes := s.Name, "-", "-"
		if s.Bootstrap {
			name, bootstraps = name+"*", true
		}
		if s.Deployed != nil {
			deployed = Moment(*s.Deployed)
		}
		if s.Processes > 0 {
			processes = fmt.Sprintf("%d/%d", s.Running, s.Processes)
		}
		table.Row(name, orDash(s.Zone), orDash(strings.Join(sortedValues(s.Addresses), ", ")), stateText(s), processes, orDash(s.Stemcell), deployed)
	}
	table.Print()
	if bootstraps {
		fmt.Fprintln(out, "* is the bootstrap instance of its group")
	}
	if ps {
		instanceProcesses(out, all)
	}
	if vitals {
		instanceVitals(out, all)
	}
	instanceNotes(out, all)
	if all.Well {
		out.paint(green, "\nAll is well.\n")
		return
	}
	out.paint(alarm, "\nNot well:\n")
	for _, s := range all.Instances {
		for _, text := range s.Problems {
			Say(out, fmt.Sprintf("- %s: %s", s.Name, text))
		}
	}
}

// Heading prints a name above an instance's output, after an empty line unless it is the
// first one.
func Heading(out *Writer, name string, first bool) {
	if !first {
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%s\n%s\n", name, strings.Repeat("-", len(name)))
}

// instanceProcesses prints the processes of instances.
func instanceProcesses(out *Writer, all *observe.InstanceStates) {
	fmt.Fprintln(out)
	table := NewTable(out, "INSTANCE", "PROCESS", "STATE", "UPTIME", "CPU", "MEMORY").
		Yield("CPU", 0).Yield("MEMORY", 0).Yield("UPTIME", 0)
	for _, s := range all.Instances {
		if s.Status == nil {
			continue
		}
		for _, p := range s.Status.Processes {
			table.Row(s.Name, p.Name, p.State, spanOf(float64(p.Uptime)), fmt.Sprintf("%.1f%%", p.CPU),
				fmt.Sprintf("%s (%.1f%%)", Size(min(int64(p.Memory), math.MaxInt64>>10)<<10), p.Percent))
		}
	}
	table.Print()
}

// instanceVitals prints the load of the VMs of instances.
func instanceVitals(out *Writer, all *observe.InstanceStates) {
	fmt.Fprintln(out)
	table := NewTable(out, "INSTANCE", "UPTIME", "LOAD", "CPU USER/SYS/WAIT", "MEMORY", "SWAP", "SYSTEM DISK", "EPHEMERAL DISK", "PERSISTENT DISK").
		Yield("UPTIME", 0).Yield("SWAP", 0).Yield("CPU USER/SYS/WAIT", 0)
	for _, s := range all.Instances {
		if s.Status == nil || s.Status.Vitals == nil {
			continue
		}
		v := s.Status.Vitals
		uptime := "-"
		if v.Uptime.Seconds.Known() {
			uptime = spanOf(*v.Uptime.Seconds.Value)
		}
		cpu := "-"
		if v.CPU.User.Known() || v.CPU.Sys.Known() || v.CPU.Wait.Known() {
			cpu = fmt.Sprintf("%s/%s/%s%%", v.CPU.User, v.CPU.Sys, v.CPU.Wait)
		}
		table.Row(s.Name, uptime, orDash(joined(v.Load, observe.Figure.String)), cpu, percent(v.Memory.Percent), percent(v.Swap.Percent),
			percent(v.Disks["system"].Percent), percent(v.Disks["ephemeral"].Percent), percent(v.Disks["persistent"].Percent))
	}
	table.Print()
}

// percent returns a percentage, or a dash if it is not known.
func percent(f observe.Figure) string {
	if !f.Known() {
		return "-"
	}
	return f.String() + "%"
}

// instanceNotes prints the notes of instances. A note of all instances is printed once.
func instanceNotes(out *Writer, all *observe.InstanceStates) {
	by := map[string][]string{} // names of instances, by note
	var notes []string
	for _, s := range all.Instances {
		if s.Status == nil {
			continue
		}
		for _, text := range s.Status.Notes {
			if len(by[text]) == 0 {
				notes = append(notes, text)
			}
			if !slices.Contains(by[text], s.Name) {
				by[text] = append(by[text], s.Name)
			}
		}
	}
	if len(notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, text := range notes {
		of := strings.Join(by[text], ", ")
		if len(by[text]) == len(all.Instances) {
			of = "all instances"
		}
		Say(out, fmt.Sprintf("Note: %s: %s", of, text))
	}
}

// stateText returns the state of an instance, and whether it is ignored.
func stateText(s observe.InstanceState) string {
	if s.Ignored {
		return string(s.State) + ", ignored"
	}
	return string(s.State)
}
