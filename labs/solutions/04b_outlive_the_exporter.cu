// SPDX-License-Identifier: MIT-0
    // >>> your part: how long the exporter stays
    EXPECT(TEMP_FAILURE_RETRY(read(socket, &byte, 1)) == 1, "the importer has ended");
    // <<<
    // >>> your part: let the exporter go, and wait for its end
    EXPECT(write(socket, &byte, 1) == 1, "the exporter has ended");
    EXPECT(TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0)) == exporter, "no exporter to wait for");
    // <<<
