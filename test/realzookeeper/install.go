//go:build unix

package realzookeeper

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Where Debian's libzookeeper-java and libslf4j-java put what zkServer.sh runs. The first names all
// that it needs in its manifest, but for what Netty needs for TLS; the second makes it log.
const debianJars = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:" +
	"/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar"

const install = "install it (Debian, Ubuntu: apt-get install --no-install-recommends " +
	"libzookeeper-java libslf4j-java default-jre-headless)"

// find returns the Java program and the class path of the server: $COORDD_TEST_ZOOKEEPER, or else
// Debian's.
func find() (java, classPath string, err error) {
	java = "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	if java, err = exec.LookPath(java); err != nil {
		return "", "", fmt.Errorf("realzookeeper: no Java (%w): %s", err, install)
	}
	classPath = os.Getenv("COORDD_TEST_ZOOKEEPER")
	if classPath == "" {
		classPath = debianJars
	}
	for _, jar := range strings.Split(classPath, ":") {
		if strings.HasSuffix(jar, "*") {
			continue // Java's own wildcard
		}
		if _, err := os.Stat(jar); err != nil {
			return "", "",
				fmt.Errorf("realzookeeper: no ZooKeeper server (%w): %s, or set "+
					"COORDD_TEST_ZOOKEEPER to the class path of another",
					err, install)
		}
	}
	return java, classPath, nil
}
