package links

// View is the links of a deployment, as `bootstrap links` shows them.
type View struct {
	Deployment string `json:"deployment"`
	Links      []Seen `json:"links"` // in the order of groups, jobs and their specs
}

// Seen is a link that a job consumes.
type Seen struct {
	Consumer End  `json:"consumer"`
	Optional bool `json:"optional,omitempty"`
	Provider *End `json:"provider,omitempty"` // absent: the manifest describes the link, or it has no provider
	// Content is what templates see: instances, properties and address. It is absent if
	// the job has no such link; Why has the reason.
	Content map[string]any `json:"content,omitempty"`
	Why     string         `json:"why,omitempty"`
}
