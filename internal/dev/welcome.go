package dev

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"

	"github.com/arcoscribe/throughline/internal/config"
	"github.com/jackc/pgx/v5"
)

// printWelcome prints the addresses and what to paste.
func printWelcome(out io.Writer, cfg config.Config, address, token string) {
	here, phone := addresses(address)
	fmt.Fprintf(out, "\nThroughline is running.\n\n  API       %s\n", here)
	if phone != "" {
		fmt.Fprintf(out, "  Phone     %s\n", phone)
	}
	fmt.Fprintf(out, "  OpenAPI   %s/openapi.json\n  Metrics   %s/metrics\n", here, here)
	fmt.Fprintf(out, "  Page      %s\n", pageLink(here, token))
	if cfg.RiverUI {
		fmt.Fprintf(out, "  River UI  %s/river/\n", here)
	}
	fmt.Fprintf(out, "  Postgres  %s\n", withoutPassword(cfg.DatabaseURL))
	fmt.Fprintf(out, "  Model     %s\n", model(cfg))
	if phone != "" {
		fmt.Fprint(out, warning(cfg))
	}
	if token == "" {
		fmt.Fprintf(out, "\nCall it with an access token of %s.\n\n", cfg.SupabaseURL)
		return
	}
	fmt.Fprintf(out, firstMessages, token, here, here)
	if cfg.LongTerm.On {
		fmt.Fprintf(out, nextChat, cfg.LongTerm.ExtractDelay, here, here)
	}
	fmt.Fprint(out, "Or talk to it: go run ./cmd/throughline chat\n")
	if cfg.OpenAIAPIKey == offlineKey {
		fmt.Fprint(out, "It has tools, too. Try: Roll two dice. Or, which asks you first: Send a postcard to Anna: Hello!\n")
	}
	fmt.Fprintln(out)
}

// pageLink opens the page, signed in where there is a token. What follows # is not sent to any server.
func pageLink(here, token string) string {
	if token == "" {
		return here + "/app/"
	}
	return here + "/app/#token=" + token
}

// firstMessages brings its own source, so that the offline model, which knows nothing, has something to say.
const firstMessages = `
Ask it something (paste all of it):

  export TOKEN=%s
  curl -N %s/v1/message/first -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -d '{
    "content": "Why do cellists wait so long at front doors?",
    "sources": [{"title": "Overheard at a rehearsal",
      "content": "Cellists wait so long at front doors because they never find the key, and never know when to come in."}]}'

Then see what it remembers, with the chat_id of the first event:

  curl -N %s/v1/message -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"chat_id": "…", "content": "What do cellists never find?"}'

`

// nextChat shows that a chat knows what another was told. The offline model reads memories by rule, and knows this one.
const nextChat = `What you tell one chat, the next one knows, when the first has rested for %s:

  curl -N %s/v1/message/first -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"content": "My name is Ada, and I am allergic to walnuts."}'

  curl -N %s/v1/message/first -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
    -d '{"content": "What do you know about me?"}'

`

func model(cfg config.Config) string {
	switch {
	case cfg.OpenAIAPIKey == offlineKey:
		return "offline: it knows nothing and quotes its prompt (set OPENAI_API_KEY for a real one)"
	case cfg.OpenAIBaseURL == "":
		return "OpenAI"
	}
	address, err := url.Parse(cfg.OpenAIBaseURL)
	if err != nil {
		return "as OPENAI_BASE_URL says"
	}
	return address.Redacted()
}

func warning(cfg config.Config) string {
	text := "\n  Anybody in your network can reach this development server"
	if cfg.RiverUI && cfg.RiverUIUser == "" {
		text += " and River UI"
	}
	if cfg.SupabaseJWTSecret == config.LocalJWTSecret {
		text += ",\n  and can make tokens for every user: the secret that signs them is public"
	}
	return text + ".\n  HTTP_ADDR=127.0.0.1:8080 keeps it to this machine.\n"
}

// addresses returns the URL of a listener for this machine and, when others can reach it, the one for a phone.
func addresses(listening string) (here, phone string) {
	address, err := netip.ParseAddrPort(listening)
	if err != nil {
		return "http://" + listening, ""
	}
	ip, port := address.Addr().Unmap(), strconv.Itoa(int(address.Port()))
	at := func(host string) string { return "http://" + net.JoinHostPort(host, port) }
	switch {
	case ip.IsLoopback():
		return at(ip.String()), ""
	case !ip.IsUnspecified():
		return at(ip.String()), at(ip.String())
	}
	return at("127.0.0.1"), at(outwardAddress())
}

// outwardAddress is the address that this machine has on the way to others, rather than that of a container's bridge.
// Nothing is sent to the documentation's address (RFC 5737). Without a way out it is the machine's name.
func outwardAddress() string {
	conn, err := net.Dial("udp", "192.0.2.1:9") //nolint:noctx // a datagram socket does not wait
	if err == nil {
		defer func() { _ = conn.Close() }() // nothing was sent
		if local, ok := conn.LocalAddr().(*net.UDPAddr); ok {
			return local.IP.String()
		}
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// withoutPassword is a connection string that may be shown.
func withoutPassword(dsn string) string {
	parsed, err := pgx.ParseConfig(dsn)
	if err != nil {
		return "as DATABASE_URL says"
	}
	return fmt.Sprintf("postgres://%s@%s/%s", parsed.User, net.JoinHostPort(parsed.Host, strconv.Itoa(int(parsed.Port))), parsed.Database)
}
