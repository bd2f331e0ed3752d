package fleet

import "bootstrap/manifest/keys"

// inputs are the keys that members, rows of tables and defaults share.
var inputs = []keys.Field{
	{Key: "ops_files", Form: keys.Paths, About: "Path of an operations file, or a list of paths, which are applied in their order: those of defaults first, then those of the entry, then those of the row."},
	{Key: "cloud_config", Form: keys.Paths, About: "Path of the cloud config, or a list of paths, in place of the one that the manifest names."},
	{Key: "vars_files", Form: keys.Paths, About: "Path of a file of variables, or a list of paths; a later file wins, in the order of ops_files."},
	{Key: "vars", Form: keys.Map, About: "Variables and their values, which win over those of vars_files. A row's value wins over the entry's, which wins over that of defaults."},
	{Key: "vars_store", Form: keys.Word, About: "Path of the file that keeps generated variables."},
	{Key: "packages_group", Form: keys.Word, About: "Name of the members that trust each other: they use what the VMs of each of them compiled."},
	{Key: "state", Form: keys.Word, About: "Path or URL of the state; without it, the state is beside the manifest, as NAME-state.json for a row NAME of a table."},
	{Key: "bootstrap_yml", Form: keys.Text, About: "Path of the file with flags of the member's commands, in place of the bootstrap.yml beside its manifest; an empty text: none."},
	{Key: "labels", Form: keys.Tags, About: "Labels for selectors and canaries."},
}

// blocked is the key that members and rows share.
var blocked = keys.Field{Key: "blocked", Form: keys.Section, Of: "blocked", About: "A blocked member is skipped, and counted."}

// sections has all maps of the fleet file with fixed keys, for the reader and for the
// schema.
var sections = keys.Table{
	{Name: "", Read: []keys.Field{
		{Key: "name", Form: keys.Word, About: "Name of the fleet; the file's name without extension unless given."},
		{Key: "members", Form: keys.Section, Of: "members[]", List: true, Need: true, Least: 1, About: "The deployments of the fleet. Relative paths start from the fleet file's folder; {name} in a path is the member's name."},
		{Key: "defaults", Form: keys.Section, Of: "defaults", About: "Settings of all members; a member can override them."},
		{Key: "update", Form: keys.Section, Of: "update", About: "The rules by which members are updated."},
	}},
	{Name: "members[]", Read: append([]keys.Field{
		{Key: "name", Form: keys.Word, About: "Name of the member; the manifest's file name without extension unless given, or its folder's name if it is called manifest."},
		{Key: "manifest", Form: keys.Word, About: "Path of the manifest."},
		{Key: "glob", Form: keys.Word, About: "Pattern of paths, such as envs/*/manifest.yml: each one is the manifest of a member."},
		{Key: "table", Form: keys.Section, Of: "members[].table[]", List: true, Least: 1, About: "The members that share the manifest, one for each row."},
		{Key: "from", Form: keys.Section, Of: "members[].from", About: "The program or the server that lists the members which share the manifest."},
		blocked,
	}, inputs...)},
	{Name: "members[].from", Read: []keys.Field{
		{Key: "exec", Form: keys.Text, List: true, Least: 1, About: "The program that prints the list as JSON, and its arguments. A path with a slash starts from the fleet file's folder, in which the program runs."},
		{Key: "url", Form: keys.Word, About: "The address of the list: https://, or http:// to this machine."},
		{Key: "ca", Form: keys.Word, About: "Path of a file with the CA of the server's certificate."},
		{Key: "headers", Form: keys.Tags, About: "Headers of the request, such as Authorization."},
		{Key: "vars", Form: keys.Text, List: true, About: "Names of the variables that the list may give; no others are accepted."},
		{Key: "pass_env", Form: keys.Text, List: true, About: "Names of environment variables that the program gets, besides PATH, HOME, USER, LANG and TMPDIR."},
	}},
	{Name: "members[].table[]", Read: append([]keys.Field{
		{Key: "name", Form: keys.Word, Need: true, About: "Name of the member."},
		blocked,
	}, inputs...)},
	{Name: "blocked", Read: []keys.Field{
		{Key: "by", Form: keys.Text, About: "Who blocked the member."},
		{Key: "why", Form: keys.Word, Need: true, About: "Why it must not be touched."},
	}},
	{Name: "defaults", Read: inputs},
	{Name: "update", Read: []keys.Field{
		{Key: "strategy", Form: keys.Choice, Values: []string{string(UpdateStrategy), string(RecreateStrategy)}, About: "update (the default): deploy what changed; recreate: replace the VM of each member, also if its agent is silent."},
		{Key: "canaries", Form: keys.Share, Of: "update.canaries", About: "How many members are updated first, as a number or a percentage; 1 unless given, 0 for none."},
		{Key: "max_in_flight", Form: keys.Share, Least: 1, About: "How many members are updated at the same time, as a number or a percentage; 1 unless given."},
		{Key: "waves", Form: keys.Share, List: true, Least: 1, About: "Sizes of the waves that follow the canaries, as numbers or percentages; the last size repeats. One wave unless given."},
		{Key: "bake", Form: keys.Duration, Of: "update.bake", About: "How long to wait after the canaries and after each wave: seconds, or a time such as 5m."},
		{Key: "max_failures", Form: keys.Whole, Most: mostCount, About: "How many members besides canaries may fail while others are still started; 0 unless given."},
		{Key: "on_failure", Form: keys.Choice, Values: []string{string(KeepFailed), string(PutBack)}, About: "What happens to a member whose new jobs do not run: keep (the default), or previous: its own previous version is put back."},
		{Key: "unreachable", Form: keys.Choice, Values: []string{string(FailUnreachable), string(SkipUnreachable)}, About: "What happens to a member whose agent does not answer: fail (the default): the run fails before anything is changed; skip: it is skipped like a blocked one."},
		{Key: "retry_busy", Form: keys.Section, Of: "update.retry_busy", About: "How often members that another run holds are tried again."},
		{Key: "order", Form: keys.Choice, Values: []string{string(FileOrder), string(NameOrder), string(RandomOrder)}, About: "Order in which members are started: file (the default), name or random."},
		{Key: "timeout", Form: keys.Duration, About: "How long one member may take: seconds, or a time such as 2h; no limit unless given."},
		{Key: "canary_watch_time", Form: keys.Watch, About: "How long to wait until the jobs of a canary run: SHORTEST-LONGEST or one number, in milliseconds, in place of update_watch_time of its manifest."},
		{Key: "update_watch_time", Form: keys.Watch, About: "The same for the other members."},
	}},
	{Name: "update.canaries", Read: []keys.Field{
		{Key: "count", Form: keys.Share, About: "How many members are updated first, as a number or a percentage; 1 unless given."},
		{Key: "label", Form: keys.Word, About: "Label that they must have: LABEL=VALUE."},
	}},
	{Name: "update.bake", Read: []keys.Field{
		{Key: "canaries", Form: keys.Duration, About: "How long to wait after the canaries."},
		{Key: "waves", Form: keys.Duration, About: "How long to wait after each wave."},
	}},
	{Name: "update.retry_busy", Read: []keys.Field{
		{Key: "rounds", Form: keys.Whole, Most: mostCount, About: "How often they are tried again; 3 unless given."},
		{Key: "wait", Form: keys.Duration, About: "How long to wait before each round: seconds, or a time such as 1m; 30s unless given."},
	}},
}

// Schema returns the JSON Schema (draft 2020-12) of a fleet file, for editors and
// other tools. Only Read checks values that depend on other parts of the file or
// on other files, such as names and paths.
func Schema() ([]byte, error) {
	return keys.Schema{
		Title:       "Fleet file",
		Description: "Deployments that are updated together, and the rules of the update.",
		Table:       sections,
		Rules:       rules,
	}.JSON()
}

// rules returns the rules between the keys of a section.
func rules(section string) []any {
	one := func(key string) keys.Object { return keys.Object{"required": []string{key}} }
	not := func(list ...any) keys.Object { return keys.Object{"not": keys.Object{"anyOf": list}} }
	switch section {
	case "members[]":
	case "members[].from":
		return []any{keys.Object{"if": one("url"), "then": not(one("exec")), "else": keys.Object{"allOf": []any{one("exec"), not(one("ca"), one("headers"))}}}}
	default:
		return nil
	}
	return []any{
		keys.Object{"if": one("glob"), "then": not(one("name"), one("manifest"), one("table"), one("from")), "else": one("manifest")},
		keys.Object{"if": one("from"), "then": not(one("name"), one("table"))},
		keys.Object{"if": one("table"), "then": not(one("name"))},
	}
}
