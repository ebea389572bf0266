// Package webui is the page at /app/: the handler that serves what scripts/setup built from page/ into dist/. The page
// calls the API with its user's token, as any other client does; nothing here reads or decides anything for it.
package webui

import (
	"bytes"
	"embed"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// built is the output of Vite. A fresh clone has only the folder.
//
//go:embed all:dist
var built embed.FS

// Settings of the page. They are public.
type Settings struct {
	Version string `json:"version"`
	// SupabaseURL and SupabaseKey, the anon or publishable one, let the page's users sign in; without both they paste a token.
	SupabaseURL string `json:"supabase_url,omitempty"`
	SupabaseKey string `json:"supabase_key,omitempty"`
	// Models are the names of the model variants; the first one answers unless another is asked for.
	Models []string `json:"model_variants"`
	// Offline is that the model of `make run` answers, which knows nothing.
	Offline bool `json:"offline_model,omitempty"`
}

// prefix is the path of the page. Vite builds it into the files' addresses.
const prefix = "/app/"

// consent is where Supabase Auth sends users to be asked. Assistants in a browser open it in a window, and wait for that window
// to come back: it stays tied to theirs.
const consent = "oauth/consent"

// New returns the handler of /app/ and everything below.
func New(settings Settings) http.Handler {
	files, err := fs.Sub(built, "dist")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return handlerOf(files, settings)
}

func handlerOf(files fs.FS, settings Settings) http.Handler {
	public, err := json.Marshal(settings)
	if err != nil {
		panic(err) // strings
	}
	page := &page{files: files, policy: policy(settings.SupabaseURL), settings: public}
	if page.index, err = fs.ReadFile(files, "index.html"); err != nil {
		page.index = []byte(notBuilt)
	}
	return page
}

const notBuilt = `<!doctype html><html lang="en"><title>Throughline</title>
<h1>The page is not built</h1><p>This program was built without it. Run <code>scripts/setup page</code>, which needs Node 20 with npm, and build again.</p>
`

type page struct {
	files           fs.FS
	index, settings []byte
	policy          string
}

// policy is the Content-Security-Policy: the page's own files, the API beside it, and the project that signs users in.
func policy(supabaseURL string) string {
	connect := "'self'"
	if project, err := url.Parse(supabaseURL); err == nil && project.Host != "" {
		connect += " " + project.Scheme + "://" + project.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src " + connect +
		"; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", p.policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(w, "The page is only read.", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean(r.URL.Path), prefix)
	if name != consent {
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
	switch {
	case name == "config.json":
		p.send(w, r, name, p.settings, "no-cache")
	case strings.HasPrefix(name, "assets/"): // their names change with their content
		p.sendFile(w, r, name, "public, max-age=31536000, immutable")
	case name == "licenses.md":
		p.sendFile(w, r, name, "no-cache")
	default: // the page's router knows its addresses
		p.send(w, r, "index.html", p.index, "no-cache")
	}
}

func (p *page) sendFile(w http.ResponseWriter, r *http.Request, name, caching string) {
	content, err := fs.ReadFile(p.files, name)
	if err != nil {
		http.Error(w, "There is no such file. The page may have been updated: load it again.", http.StatusNotFound)
		return
	}
	p.send(w, r, name, content, caching)
}

func (p *page) send(w http.ResponseWriter, r *http.Request, name string, content []byte, caching string) {
	w.Header().Set("Cache-Control", caching)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}
