package config

import (
	"net/url"
	"strings"
)

// anyOrigin stands for every origin.
const anyOrigin = "*"

// origins reads "*" or "origin,origin"; nil for none.
func (r *reader) origins(name, fallback string) []string {
	list := r.text(name, fallback)
	switch list {
	case "":
		return nil
	case anyOrigin:
		return []string{anyOrigin}
	}
	var origins []string
	for entry := range strings.SplitSeq(list, ",") {
		origin := strings.ToLower(strings.TrimSpace(entry)) // as browsers write it
		if !isOrigin(origin) {
			r.problem(name, `must be "*", or a list of scheme, host and perhaps port without a path, such as "https://app.example.com,http://localhost:3000"`)
			return nil
		}
		origins = append(origins, origin)
	}
	return origins
}

// isOrigin wants exactly what a browser sends (RFC 6454, section 6.2). A text that never equals it
// would only look as if it let somebody in, and a pattern would let in more than it seems to.
func isOrigin(text string) bool {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme == "" || parsed.Hostname() == "" || strings.ContainsAny(text, "*? ") {
		return false
	}
	unsaid := parsed.Scheme == "https" && parsed.Port() == "443" || parsed.Scheme == "http" && parsed.Port() == "80"
	return !unsaid && text == parsed.Scheme+"://"+parsed.Host
}
