package localpg

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// chooseUser returns the user that the server runs as: the owner of the data, because the server accepts no other; for
// new data the current user, or for root an unprivileged one. nil is the current user.
func chooseUser(data string) (*syscall.Credential, error) {
	info, err := os.Stat(data)
	if err != nil {
		return UnprivilegedUser()
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return nil, nil
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("the Postgres data in %s belongs to user %s: run as that user or as root, or delete it", data, nameOf(stat.Uid))
	}
	return &syscall.Credential{Uid: stat.Uid, Gid: stat.Gid}, nil
}

// UnprivilegedUser returns a user for a program that refuses to run as root: nil, the current one, unless that is root.
func UnprivilegedUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		var who syscall.Credential
		_, err = fmt.Sscan(found.Uid+" "+found.Gid, &who.Uid, &who.Gid)
		return &who, err
	}
	return nil, errors.New("Postgres does not run as root, and this system has neither a user postgres nor a user nobody to run it as")
}

func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if found, err := user.LookupId(id); err == nil {
		return found.Username
	}
	return id
}
