package cmd

import (
	"strings"

	"bootstrap/deployer"
)

// targetArgs are the arguments that name the deployment of a run, ready to be
// pasted behind another command. Values of variables are left out, since they
// may be secrets: an ellipsis that no shell takes for a value stands for them.
func targetArgs(opts deployer.Options) string {
	var args []string
	add := func(flag, value string) {
		if flag != "" {
			args = append(args, flag)
		}
		args = append(args, quoteArg(value))
	}
	if opts.Manifest == "" {
		args = append(args, "MANIFEST")
	} else {
		add("", opts.Manifest)
	}
	if opts.StateFile != "" {
		add("--state", opts.StateFile)
	}
	for _, list := range []struct {
		flag   string
		values []string
	}{
		{"-o", opts.Inputs.Ops}, {"-l", opts.Inputs.VarsFiles},
		{"--var-file", opts.Inputs.VarFiles}, {"--vars-env", opts.Inputs.VarsEnv},
	} {
		for _, value := range list.values {
			add(list.flag, value)
		}
	}
	if opts.Inputs.VarsStore != "" {
		add("--vars-store", opts.Inputs.VarsStore)
	}
	for _, v := range opts.Inputs.Vars {
		name, _, _ := strings.Cut(v, "=")
		args = append(args, "-v "+quoteArg(name)+"=<…>")
	}
	return strings.Join(args, " ")
}

// withTarget fills the deployment's arguments into a text that names commands.
func (c *console) withTarget(text string) string {
	if c.target == "" {
		return text
	}
	return strings.ReplaceAll(text, "MANIFEST", c.target)
}

// quoteArg quotes a word as a shell needs it.
func quoteArg(word string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_./:=@%+,", c)
	}
	if word != "" && strings.IndexFunc(word, func(c rune) bool { return !plain(c) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
