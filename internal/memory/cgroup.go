package memory

import (
	"bufio"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// cgroupLimit is the least of the memory limits of the control groups that this process is in, with the file that says so; 0: none has one.
// A group may use no more than those around it, and containers are often without a limit of their own in a group that has one: so all up
// to the mount point are asked, of version 2 (memory.max) and version 1 (memory.limit_in_bytes).
// See https://docs.kernel.org/admin-guide/cgroup-v2.html and cgroups(7).
func cgroupLimit(root fs.FS) (bytes int64, file string) {
	groups := lines(root, "proc/self/cgroup")
	for _, line := range lines(root, "proc/self/mountinfo") {
		front, back, _ := strings.Cut(line, " - ")
		at, kind := strings.Fields(front), strings.Fields(back)
		if len(at) < 5 || len(kind) < 3 {
			continue
		}
		name, group := "", ""
		switch {
		case kind[0] == "cgroup2":
			name, group = "memory.max", groupOf(groups, "")
		case kind[0] == "cgroup" && has(kind[2], "memory"):
			name, group = "memory.limit_in_bytes", groupOf(groups, "memory")
		default:
			continue
		}
		mount := strings.TrimPrefix(unescaped(at[4]), "/")
		for folder := path.Join(mount, below(group, unescaped(at[3]))); ; folder = path.Dir(folder) {
			if n := limitIn(root, path.Join(folder, name)); n > 0 && (bytes == 0 || n < bytes) {
				bytes, file = n, "/"+path.Join(folder, name)
			}
			if len(folder) <= len(mount) {
				break
			}
		}
	}
	return bytes, file
}

// groupOf is the path of the group in which a controller's limits for this process are; "" is version 2's only one.
func groupOf(groups []string, controller string) string {
	for _, line := range groups {
		_, rest, _ := strings.Cut(line, ":")
		controllers, group, ok := strings.Cut(rest, ":")
		if ok && (controllers == controller || controller != "" && has(controllers, controller)) {
			return group
		}
	}
	return "/"
}

// below is a group's path under the mount point, whose own root in the hierarchy may be further down: in a container it is the container's.
func below(group, root string) string {
	if root == "/" || root == "" {
		return group
	}
	rest, ok := strings.CutPrefix(group, root)
	if !ok || rest != "" && rest[0] != '/' {
		return "/" // seen from another namespace: what is mounted is what this process is in
	}
	return rest
}

// limitIn is the limit that a file holds, 0 without one: "max", or version 1's number for none, which is nearly the largest there is.
func limitIn(root fs.FS, file string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= math.MaxInt64/2 {
		return 0
	}
	return int64(n)
}

func lines(root fs.FS, file string) (all []string) {
	f, err := root.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

func has(list, word string) bool {
	for each := range strings.SplitSeq(list, ",") {
		if each == word {
			return true
		}
	}
	return false
}

// unescaped is a path of mountinfo, in which spaces and the like stand as \040 (proc_pid_mountinfo(5)).
func unescaped(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
