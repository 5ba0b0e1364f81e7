package tenant

import "testing"

func TestNoTwoTenantsShareASaltWhateverTheySay(t *testing.T) {
	secret, seen := []byte("installation"), map[string]string{}
	for _, c := range [][2]string{{"", ""}, {"a", ""}, {"", "a"}, {"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"", "abc"}, {"a", "a"}, {"cache salt", ""}} {
		salt := Salt(secret, c[0], c[1])
		if len(salt) != 43 || salt != Salt(secret, c[0], c[1]) || salt == Salt([]byte("another"), c[0], c[1]) {
			t.Errorf("%q: %s", c, salt)
		}
		if before, twice := seen[salt]; twice {
			t.Errorf("%q has the salt of %s", c, before)
		}
		seen[salt] = c[0] + "/" + c[1]
	}
}
