package monitfile

// keyword returns the usual spelling of a keyword of monit 5.2.5; lower is a word in lower
// case. The spelling is empty for words that monit ignores everywhere. All other words are
// names and values.
func keyword(lower string) (string, bool) {
	switch lower {
	case "is", "as", "are", "for", "on", "only", "with", "within", "without", "program", "programs", "and",
		"has", "using", "use", "the", "sum", "than", "usage", "was", "times", "but", "of", "does":
		return "", true
	case "readonly", "read-only":
		return "readonly", true
	case "port", "portnumber":
		return "port", true
	case "unix", "unixsocket":
		return "unixsocket", true
	case "proto", "protocol":
		return "protocol", true
	case "restart", "restarts":
		return "restart", true
	case "cycle", "cycles":
		return "cycle", true
	case "mem", "memory":
		return "mem", true
	case "totalmem", "totalmemory":
		return "totalmem", true
	case "second", "seconds":
		return "second", true
	case "minute", "minutes":
		return "minute", true
	case "hour", "hours":
		return "hour", true
	case "day", "days":
		return "day", true
	case "inode", "inodes":
		return "inode", true
	case "slot", "slots":
		return "slot", true
	case "fsflag", "fsflags":
		return "fsflag", true
	case "perm", "permission":
		return "permission", true
	case "exec", "execute":
		return "exec", true
	case "match", "matching":
		return "match", true
	case "byte", "b":
		return "byte", true
	case "kilobyte", "kb":
		return "kilobyte", true
	case "megabyte", "mb":
		return "megabyte", true
	case "gigabyte", "gb":
		return "gigabyte", true
	case "greater", "gt", ">":
		return ">", true
	case "less", "lt", "<":
		return "<", true
	case "equal", "eq", "==", "=":
		return "=", true
	case "notequal", "ne", "!=":
		return "!=", true
	case "action", "active", "address", "alert", "allow", "allowselfcertification", "apache-status", "basedir", "certmd5", "changed",
		"checksum", "children", "clamav", "cleanuplimit", "cleartext", "clientpemfile", "closelimit", "connection", "content", "count",
		"cpu", "credentials", "crypt", "daemon", "data", "default", "delay", "disable", "dns", "dnslimit",
		"dwp", "echo", "else", "enable", "eventqueue", "every", "exist", "expect", "expectbuffer", "facility",
		"failed", "fips", "ftp", "gid", "gps", "gracefullimit", "host", "hostheader", "hostname", "http",
		"httpd", "icmp", "idfile", "if", "ignore", "imap", "include", "init", "instance", "invalid",
		"keepalivelimit", "ldap2", "ldap3", "lmtp", "logfile", "loglimit", "mail-format", "mailserver", "manual", "maxforward",
		"md5", "memcache", "mmonit", "mode", "mysql", "nntp", "noalert", "nonexist", "not", "ntp3",
		"or", "passed", "passive", "password", "path", "pemfile", "percent", "pgsql", "pid", "pidfile",
		"pop", "postfix-policy", "ppid", "radius", "rdate", "recovered", "register", "reminder", "replylimit", "request",
		"requestlimit", "resource", "rsync", "secret", "send", "set", "sha1", "signature", "sip", "size",
		"smtp", "space", "ssh", "ssl", "sslauto", "sslv2", "sslv3", "start", "startlimit", "statefile",
		"stop", "succeeded", "swap", "syslog", "system", "target", "tcp", "tcpssl", "then", "timeout",
		"timestamp", "tlsv1", "tns", "totalcpu", "type", "udp", "uid", "unmonitor", "url", "username",
		"waitlimit":
		return lower, true
	}
	return "", false
}
