package plan

import "strings"

// partLink is the kind of the parts of a link: "link: JOB LINK KEY".
const partLink = "link"

// LinkName is the name under which Wishes.Links has the source of a link that a job
// consumes.
func LinkName(job, link string) string { return job + " " + link }

// DescribedLinks is the part with what the manifest says about the links of a job of the
// only instance.
func DescribedLinks(job string) string { return "links: " + job }

// KeepDescribedLinks copies what an instance had applied while it was the only one: with
// several, only the contents of links count.
func KeepDescribedLinks(want, have map[string]string) {
	for part, digest := range have {
		if strings.HasPrefix(part, DescribedLinks("")) {
			want[part] = digest
		}
	}
}

// AddLink adds what a job gets by a link to the parts of an instance.
func AddLink(parts map[string]any, job, link string, content map[string]any) {
	for _, key := range []string{"instances", "properties", "address"} {
		if value := content[key]; value != nil {
			parts[partLink+": "+LinkName(job, link)+" "+key] = value
		}
	}
}

// addLinkReason adds the changed part of a link to the reasons: a link is one reason.
// sources has where links come from, by LinkName.
func addLinkReason(why []Reason, part string, sources map[string]string) []Reason {
	job, rest, _ := strings.Cut(part, " ")
	link, key, _ := strings.Cut(rest, " ")
	r := Reason{Cause: LinkGone, Subject: link, To: job}
	if source := sources[LinkName(job, link)]; source != "" {
		r.Cause, r.From, r.Names = LinkChanged, source, []string{key}
	}
	for i := range why {
		if same := &why[i]; same.Cause == r.Cause && same.Subject == link && same.To == job {
			same.Names = append(same.Names, r.Names...)
			return why
		}
	}
	return append(why, r)
}
