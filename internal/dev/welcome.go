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

// printWelcome prints the page's link, what to paste into a terminal, and the other addresses.
func printWelcome(out io.Writer, cfg config.Config, address, token string) {
	here, phone := addresses(address)
	fmt.Fprintf(out, "\n  %s\n\n", pageLink(here, token))
	if token == "" {
		fmt.Fprintf(out, "Throughline is running. Call it at %s with an access token of %s.\n\n", here, cfg.SupabaseURL)
	} else {
		fmt.Fprintf(out, toPaste, here, here)
	}
	if cfg.OpenAIAPIKey == offlineKey {
		fmt.Fprint(out, "It has tools, too. Try: Roll two dice. Or, which asks you first: Send a postcard to Anna: Hello!\n\n")
	}
	if phone != "" {
		fmt.Fprintf(out, "  Phone     %s\n", phone)
	}
	if cfg.RiverUI {
		fmt.Fprintf(out, "  River UI  %s/river/\n", here)
	}
	fmt.Fprintf(out, "  Postgres  %s\n  Model     %s\n", withoutPassword(cfg.DatabaseURL), model(cfg))
	if phone != "" {
		fmt.Fprint(out, warning(cfg))
	}
	fmt.Fprintln(out)
}

// toPaste needs no token: the program knows the secret that signs it.
const toPaste = `Throughline is running: open the link in a browser. Or talk to it in a second terminal:

  .local/bin/throughline chat --url %s

Or call it:

  curl -N %s/v1/message/first -H "Authorization: Bearer $(.local/bin/throughline token)" \
    -H 'Content-Type: application/json' -d '{"content": "My name is Ada, and I am allergic to walnuts."}'

`

// pageLink opens the page, signed in where there is a token. What follows # is not sent to any server.
func pageLink(here, token string) string {
	if token == "" {
		return here + "/app/"
	}
	return here + "/app/#token=" + token
}

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
