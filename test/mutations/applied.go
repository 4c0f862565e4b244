package mutations

// Applied tells whether this build has the mutations. The overlay has another copy of this file.
const Applied = false
